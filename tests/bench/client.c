/* The yardstick: the least that a program can do to ask NVML for a device, in C. The same calls as a pick of getgpu on an idle node,
 * on the same library, with no choice, no lock and no process of its own for them. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

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

int main(void)
{
    char driver[80], uuid[96];
    unsigned count = 0, mode = 0, pending = 0, slots = 0, processes = 64;
    device gpu, mig;
    static process list[64];
    memory used = { .version = sizeof(memory) | 2 << 24 };

    library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) { fprintf(stderr, "client: %s\n", dlerror()); return 3; }
    CALL("Init_v2", (void));
    CALL("SystemGetDriverVersion", (char *, unsigned), driver, sizeof driver);
    CALL("DeviceGetCount_v2", (unsigned *), &count);
    CALL("DeviceGetHandleByIndex_v2", (unsigned, device *), 0, &gpu);
    CALL("DeviceGetMigMode", (device, unsigned *, unsigned *), gpu, &mode, &pending);
    CALL("DeviceGetMaxMigDeviceCount", (device, unsigned *), gpu, &slots);
    CALL("DeviceGetMigDeviceHandleByIndex", (device, unsigned, device *), gpu, 0, &mig);
    CALL("DeviceGetUUID", (device, char *, unsigned), mig, uuid, sizeof uuid);
    CALL("DeviceGetComputeRunningProcesses_v3", (device, unsigned *, process *), mig, &processes, list);
    CALL("DeviceGetMemoryInfo_v2", (device, memory *), mig, &used);
    CALL("Shutdown", (void));
    puts(uuid);
    return 0;
}
