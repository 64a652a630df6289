/* A program that keeps as many threads busy as OpenMP gives it, in steps with a barrier between, as solvers do. */
#include <stdio.h>

int main(void)
{
    static double cell[1 << 16];
    double sum = 0;
    for (int step = 0; step < 300; step++) {
#pragma omp parallel for reduction(+ : sum)
        for (int i = 0; i < 1 << 16; i++) {
            double x = cell[i] + i;
            for (int n = 0; n < 8; n++)
                x = x * 0.999 + 0.5;
            cell[i] = x;
            sum += x;
        }
    }
    return sum == 0.0;
}
