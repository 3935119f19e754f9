/* busy STEPS: takes so many steps that depend on each other, and ends. */
#include <stdint.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    uint64_t left = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    volatile uint64_t kept;
    uint64_t state = left;

    while (left--)
        state = state * 6364136223846793005u + 1442695040888963407u;
    kept = state;
    (void)kept;
    return 0;
}
