/* Two workloads: dependent steps of arithmetic, as in Oscope's own `null`, and filling memory.
 *
 *     cc -O2 -o mybench example.c -lm
 *     oscope run --workload ./mybench memory.fill --set size=4K,1M */
#define _GNU_SOURCE
#include "oscope.h"

static unsigned char *buffer;

static void prepare_fill(struct oscope_point *point)
{
    buffer = malloc((size_t)oscope_integer(point, "size"));
    if (buffer == NULL)
        oscope_unavailable(point, "there is not enough memory", "give a smaller size");
}

static void fill(struct oscope_point *point, uint64_t iterations)
{
    size_t size = (size_t)oscope_integer(point, "size");
    for (uint64_t i = 0; i < iterations; i++) {
        memset(buffer, (int)i, size);
        oscope_use(buffer);
    }
}

static void check_fill(struct oscope_point *point)
{
    size_t size = (size_t)oscope_integer(point, "size");
    if (size > 0 && buffer[0] != buffer[size - 1])
        oscope_fail(point, "the buffer is not filled to its end");
    oscope_metric(point, "filled_bytes", (double)size);
}

static void cleanup_fill(struct oscope_point *point)
{
    (void)point;
    free(buffer);
    buffer = NULL;
}

static void steps(struct oscope_point *point, uint64_t iterations)
{
    uint64_t work = (uint64_t)oscope_integer(point, "work"), value = 1;
    for (uint64_t i = 0; i < iterations; i++) {
        for (uint64_t step = 0; step < work; step++) {
            value = value * 6364136223846793005u + 1442695040888963407u;
            oscope_opaque(value);
        }
    }
}

static const struct oscope_parameter fill_parameters[] = {
    {.name = "size", .type = OSCOPE_BYTES, .number = 4096, .doc = "Bytes that an iteration fills."},
    {NULL},
};
static const struct oscope_metric fill_metrics[] = {
    {"filled_bytes", "B", NULL, "Bytes that an iteration filled."},
    {NULL},
};
static const struct oscope_parameter step_parameters[] = {
    {.name = "work", .type = OSCOPE_INTEGER, .number = 1000, .doc = "Dependent multiply-and-add steps."},
    {NULL},
};
static const struct oscope_workload workloads[] = {
    {.name = "memory.fill",
     .purpose = "Fill memory with one value",
     .parameters = fill_parameters,
     .metrics = fill_metrics,
     .prepare = prepare_fill,
     .iterate = fill,
     .check = check_fill,
     .cleanup = cleanup_fill},
    {.name = "steps.c", .purpose = "Dependent steps of arithmetic", .parameters = step_parameters, .iterate = steps},
};

int main(int argc, char **argv)
{
    return oscope_main(argc, argv, workloads, 2);
}
