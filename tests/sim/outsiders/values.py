"""Compares the numbers of NVML that the programs know with those of NVIDIA's nvml.h, of one version or another.

Usage: values.py nvml.h. A number that is new in the header, or another one there, ends it with status 1: what it means for
a device has to be decided in common/model/src/health.rs or common/nvml/src/fault.rs first.
"""

import re
import sys

KNOWN = {
    "NVML_GPU_RECOVERY_ACTION_": {
        "NONE": 0, "GPU_RESET": 1, "NODE_REBOOT": 2, "DRAIN_P2P": 3, "DRAIN_AND_RESET": 4, "RECOVER_IMEX_DOMAIN": 5,
        "BUS_RESET": 6, "SYSTEM_REBOOT": 7,
    },
    "NVML_COMPUTEMODE_": {"DEFAULT": 0, "EXCLUSIVE_THREAD": 1, "PROHIBITED": 2, "EXCLUSIVE_PROCESS": 3},
    "NVML_GPU_FABRIC_STATE_": {"NOT_SUPPORTED": 0, "NOT_STARTED": 1, "IN_PROGRESS": 2, "COMPLETED": 3},
    "NVML_ERROR_": {
        "UNINITIALIZED": 1, "INVALID_ARGUMENT": 2, "NOT_SUPPORTED": 3, "NO_PERMISSION": 4, "ALREADY_INITIALIZED": 5,
        "NOT_FOUND": 6, "INSUFFICIENT_SIZE": 7, "INSUFFICIENT_POWER": 8, "DRIVER_NOT_LOADED": 9, "TIMEOUT": 10,
        "IRQ_ISSUE": 11, "LIBRARY_NOT_FOUND": 12, "FUNCTION_NOT_FOUND": 13, "CORRUPTED_INFOROM": 14, "GPU_IS_LOST": 15,
        "RESET_REQUIRED": 16, "OPERATING_SYSTEM": 17, "LIB_RM_VERSION_MISMATCH": 18, "IN_USE": 19, "MEMORY": 20,
        "NO_DATA": 21, "VGPU_ECC_NOT_SUPPORTED": 22, "INSUFFICIENT_RESOURCES": 23, "FREQ_NOT_SUPPORTED": 24,
        "ARGUMENT_VERSION_MISMATCH": 25, "DEPRECATED": 26, "NOT_READY": 27, "GPU_NOT_FOUND": 28, "INVALID_STATE": 29,
        "RESET_TYPE_NOT_SUPPORTED": 30, "UNKNOWN": 999,
    },
    # The fields that are asked for.
    "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION": {"": 230},
}

text = open(sys.argv[1], encoding="utf-8").read()
found = 0
wrong = []
for prefix, numbers in KNOWN.items():
    told = re.findall(rf"^(?:#define)?\s*{prefix}(\w*)\s*=?\s*([0-9]+)", text, re.MULTILINE)
    found += len(told)
    wrong += [f"{prefix}{name} is {number}" for name, number in told if numbers.get(name) != int(number)]
for line in wrong:
    print(line)
print(f"{found} numbers compared")
sys.exit(1 if wrong or found < 30 else 0)
