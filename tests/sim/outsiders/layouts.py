"""Writes a C program that prints, by NVIDIA's own nvml.h, the lines that the simulated library printed of itself.

Usage: layouts.py < lines-of-the-simulator > layouts.c
"""

import sys

print("#include <nvml.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {")
for line in sys.stdin:
    kind, field, _ = line.split()
    value = f"sizeof({kind})" if field == "size" else f"offsetof({kind}, {field})"
    print(f'    printf("{kind} {field} %zu\\n", {value});')
print("    return 0;\n}")
