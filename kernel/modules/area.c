// SPDX-License-Identifier: GPL-2.0-only
/*
 * The area that an opener can map: pages that are there from their first use.
 */
#include <linux/capability.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/uaccess.h>

#include "opener.h"

/*
 * Return the page, allocating it if need be, or NULL. A page fault can come
 * while the opener's lock is held, by a read() into the area itself: there is
 * no lock here.
 */
static struct page *area_page(struct oscope_opener *opener, unsigned long index)
{
	struct page *page, *other;

	/* Pairs with cmpxchg() below: a page that is seen is zeroed. */
	page = smp_load_acquire(&opener->pages[index]);
	if (page)
		return page;
	page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!page)
		return NULL;
	other = cmpxchg(&opener->pages[index], NULL, page);
	if (!other)
		return page;
	__free_page(page);
	return other;
}

static vm_fault_t area_fault(struct vm_fault *fault)
{
	struct oscope_opener *opener = fault->vma->vm_private_data;
	struct page *page;

	if (fault->pgoff >= OSCOPE_AREA_PAGES)
		return VM_FAULT_SIGBUS;
	page = area_page(opener, fault->pgoff);
	if (!page)
		return VM_FAULT_OOM;
	get_page(page);
	fault->page = page;
	return 0;
}

static const struct vm_operations_struct area_operations = {
	.fault = area_fault,
};

int oscope_mmap(struct file *file, struct vm_area_struct *vma)
{
	/* What is written to a private copy would never be sent. */
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (vma->vm_flags & VM_EXEC)
		return -EACCES;
	if (vma->vm_pgoff > OSCOPE_AREA_PAGES ||
	    vma_pages(vma) > OSCOPE_AREA_PAGES - vma->vm_pgoff)
		return -EINVAL;
#ifdef OSCOPE_VM_FLAGS_FUNCTIONS
	vm_flags_mod(vma, VM_DONTEXPAND | VM_DONTDUMP, VM_MAYEXEC);
#else
	vma->vm_flags = (vma->vm_flags | VM_DONTEXPAND | VM_DONTDUMP) & ~VM_MAYEXEC;
#endif
	vma->vm_private_data = file->private_data;
	vma->vm_ops = &area_operations;
	return 0;
}

void oscope_free_area(struct oscope_opener *opener)
{
	unsigned long index;

	/* Who pinned a page, for direct I/O for example, keeps it until then. */
	for (index = 0; index < OSCOPE_AREA_PAGES; index++)
		if (opener->pages[index])
			put_page(opener->pages[index]);
}

/*
 * Lay the opener's vectors over the area from an offset, and return the bytes
 * they hold: `length`, or fewer where that takes more vectors than there are.
 */
ssize_t oscope_area_vectors(struct oscope_opener *opener, u64 offset, size_t length)
{
	size_t held = 0;
	size_t count;

	for (count = 0; count < OSCOPE_VECTORS && held < length; count++) {
		size_t within = offset_in_page(offset + held);
		struct page *page = area_page(opener, (offset + held) / PAGE_SIZE);
		struct kvec *vector = &opener->vectors[count];

		if (!page)
			return -ENOMEM;
		vector->iov_base = page_address(page) + within;
		vector->iov_len = min_t(size_t, PAGE_SIZE - within, length - held);
		held += vector->iov_len;
	}
	opener->used = count;
	return held;
}

#ifdef OSCOPE_FOLLOW_PTE
static void describe_entry(struct oscope_transfer_descriptor *descriptor)
{
	spinlock_t *lock; /* of the page table */
	pte_t *entry;

	if (__cond_lock(lock, !follow_pte(current->mm, descriptor->address, &entry, &lock))) {
		descriptor->pte = pte_val(*entry);
		descriptor->flags |= OSCOPE_TRANSFER_PTE;
		pte_unmap_unlock(entry, lock);
	}
}
#else
/* The kernel has no function for modules that reads the entry of a page it manages. */
static void describe_entry(struct oscope_transfer_descriptor *descriptor)
{
}
#endif

/* Find where the caller has mapped the offset, and what its page tables say. */
static int describe_mapping(struct oscope_opener *opener,
			    struct oscope_transfer_descriptor *descriptor)
{
	unsigned long index = descriptor->offset / PAGE_SIZE;
	struct mm_struct *mm = current->mm;
	struct vma_iterator iterator;
	struct vm_area_struct *vma;

	vma_iter_init(&iterator, mm, 0);
	if (mmap_read_lock_killable(mm))
		return -EINTR;
	for_each_vma(iterator, vma) {
		if (vma->vm_ops != &area_operations || vma->vm_private_data != opener ||
		    index < vma->vm_pgoff || index - vma->vm_pgoff >= vma_pages(vma))
			continue;
		descriptor->address = vma->vm_start + descriptor->offset -
				      (vma->vm_pgoff << PAGE_SHIFT);
		descriptor->flags |= OSCOPE_TRANSFER_MAPPED;
		describe_entry(descriptor);
		break;
	}
	mmap_read_unlock(mm);
	return 0;
}

long oscope_descriptor(struct file *file, void __user *argument)
{
	struct oscope_opener *opener = file->private_data;
	struct oscope_transfer_descriptor descriptor;
	struct page *page;
	int error;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (copy_from_user(&descriptor, argument, sizeof(descriptor)))
		return -EFAULT;
	if (descriptor.size != sizeof(descriptor) || descriptor.flags || descriptor.reserved ||
	    descriptor.offset >= OSCOPE_TRANSFER_AREA)
		return -EINVAL;
	descriptor = (struct oscope_transfer_descriptor) {
		.size = descriptor.size,
		.offset = descriptor.offset,
	};
	error = describe_mapping(opener, &descriptor);
	if (error)
		return error;
	/* Pairs with area_page(). */
	page = smp_load_acquire(&opener->pages[descriptor.offset / PAGE_SIZE]);
	if (page) {
		descriptor.flags |= OSCOPE_TRANSFER_ALLOCATED;
		descriptor.pfn = page_to_pfn(page);
		descriptor.page_flags = READ_ONCE(page->flags);
		descriptor.refcount = page_ref_count(page);
		/* A page of its own, not of a folio: the counter begins at -1. */
		descriptor.mapcount = atomic_read(&page->_mapcount) + 1;
	}
	return copy_to_user(argument, &descriptor, sizeof(descriptor)) ? -EFAULT : 0;
}
