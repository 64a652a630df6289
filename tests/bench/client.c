/* The yardstick: the least that a program can do to ask NVML for a device, or for all of them, in C. The same calls as a pick of getgpu
 * on an idle node, on the same library, with no choice, no lock and no process of its own for them. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void *device;
typedef struct { unsigned pid; unsigned long long memory; unsigned gi, ci; } process;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory;

static void *library;

static void *symbol(const char *name)
{
    void *found = dlsym(library, name);
    if (!found) { fprintf(stderr, "client: %s\n", dlerror()); exit(3); }
    return found;
}

#define CALL(name, types, ...) do { \
    int code = ((int (*) types)symbol("nvml" name))(__VA_ARGS__); \
    if (code) { fprintf(stderr, "client: %s: %d\n", name, code); exit(3); } } while (0)

/* One device: its UUID, its memory and its processes, as a pick has to know them. */
static void look(device it, char *uuid, unsigned *processes, memory *used)
{
    static process list[64];
    *processes = 64;
    CALL("DeviceGetUUID", (device, char *, unsigned), it, uuid, 96);
    CALL("DeviceGetComputeRunningProcesses_v3", (device, unsigned *, process *), it, processes, list);
    CALL("DeviceGetMemoryInfo_v2", (device, memory *), it, used);
}

/* What a list of names and places needs beside it. */
static void name(device gpu, device mig)
{
    char text[96];
    unsigned gi, ci;
    if (!mig) {
        char pci[128];
        CALL("DeviceGetUUID", (device, char *, unsigned), gpu, text, 96);
        CALL("DeviceGetName", (device, char *, unsigned), gpu, text, 96);
        CALL("DeviceGetPciInfo_v3", (device, void *), gpu, pci);
        return;
    }
    CALL("DeviceGetGpuInstanceId", (device, unsigned *), mig, &gi);
    CALL("DeviceGetComputeInstanceId", (device, unsigned *), mig, &ci);
    CALL("DeviceGetName", (device, char *, unsigned), mig, text, 96);
}

/* Prints the first device; with `-- PROGRAM...` it executes the program there; with any other argument all MIG devices of the node, as
 * nvidia-smi would have to find them for a list; with `names` it asks for all that `getgpu --list` asks for. */
int main(int arguments, char **argument)
{
    char driver[80], uuid[96];
    unsigned count = 0, mode = 0, pending = 0, slots = 0, processes = 0;
    int execute = arguments > 2 && !strcmp(argument[1], "--");
    int all = arguments > 1 && !execute, names = all && argument[1][0] == 'n';
    device gpu, mig;
    memory used = { .version = sizeof(memory) | 2 << 24 };

    library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) { fprintf(stderr, "client: %s\n", dlerror()); return 3; }
    CALL("Init_v2", (void));
    CALL("SystemGetDriverVersion", (char *, unsigned), driver, sizeof driver);
    CALL("DeviceGetCount_v2", (unsigned *), &count);
    for (unsigned i = 0; i < (all ? count : 1); i++) {
        CALL("DeviceGetHandleByIndex_v2", (unsigned, device *), i, &gpu);
        CALL("DeviceGetMigMode", (device, unsigned *, unsigned *), gpu, &mode, &pending);
        CALL("DeviceGetMaxMigDeviceCount", (device, unsigned *), gpu, &slots);
        if (names) name(gpu, NULL);
        if (!mode) look(gpu, uuid, &processes, &used);
        for (unsigned j = 0; j < (!mode ? 0 : all ? slots : 1); j++) {
            CALL("DeviceGetMigDeviceHandleByIndex", (device, unsigned, device *), gpu, j, &mig);
            look(mig, uuid, &processes, &used);
            if (names) name(gpu, mig);
            if (all) printf("%u:%u %s %llu %u\n", i, j, uuid, used.used, processes);
        }
    }
    CALL("Shutdown", (void));
    if (execute) {
        setenv("CUDA_VISIBLE_DEVICES", uuid, 1);
        execvp(argument[2], argument + 2);
        perror(argument[2]);
        return 127;
    }
    if (!all) puts(uuid);
    return 0;
}
