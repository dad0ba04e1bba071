/* libnvidia-ml.so.1 for simulated GPUs: the calls that NVIDIA's DRA driver makes for whole GPUs.
 * The table GPUS comes from the models of dra_node_agent.nvml, by tools/nvml/root.py.
 * Signatures are those of NVML's reference; a handle is the address of a GPU's entry.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10 };

struct gpu {
    const char *uuid, *name, *bus_id;
    unsigned long long memory;
    unsigned int domain, bus, device_id, architecture, brand, numa_node;
    int major, minor;
    int compute_mode;
    int in_fabric;
    unsigned char cluster[16];
    unsigned int clique;
};

#include "gpus.h"

#define COUNT (sizeof GPUS / sizeof *GPUS)
#define API(name) __attribute__((visibility("default"))) int name

typedef struct gpu *Device;

struct memory { unsigned long long total, free, used; };
struct pci {
    char legacy[16];
    unsigned int domain, bus, device, device_id, subsystem_id;
    char id[32];
};

static int text(char *out, unsigned int size, const char *value) {
    if (strlen(value) >= size) return INSUFFICIENT_SIZE;
    strcpy(out, value);
    return SUCCESS;
}

API(nvmlInit)(void) { return SUCCESS; }
API(nvmlInit_v2)(void) { return SUCCESS; }
API(nvmlInitWithFlags)(unsigned int flags) { (void)flags; return SUCCESS; }
API(nvmlShutdown)(void) { return SUCCESS; }

__attribute__((visibility("default"))) const char *nvmlErrorString(int code) {
    switch (code) {
    case SUCCESS: return "Success";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case TIMEOUT: return "Timeout";
    default: return "Unknown Error";
    }
}

API(nvmlSystemGetDriverVersion)(char *out, unsigned int size) { return text(out, size, DRIVER_VERSION); }
API(nvmlSystemGetCudaDriverVersion)(int *out) { *out = CUDA_VERSION; return SUCCESS; }
API(nvmlSystemGetCudaDriverVersion_v2)(int *out) { *out = CUDA_VERSION; return SUCCESS; }

API(nvmlDeviceGetCount)(unsigned int *out) { *out = COUNT; return SUCCESS; }
API(nvmlDeviceGetCount_v2)(unsigned int *out) { *out = COUNT; return SUCCESS; }

API(nvmlDeviceGetHandleByIndex_v2)(unsigned int index, Device *out) {
    if (index >= COUNT) return INVALID_ARGUMENT;
    *out = &GPUS[index];
    return SUCCESS;
}

API(nvmlDeviceGetHandleByUUID)(const char *uuid, Device *out) {
    for (unsigned int i = 0; i < COUNT; i++)
        if (!strcmp(uuid, GPUS[i].uuid)) { *out = &GPUS[i]; return SUCCESS; }
    return NOT_FOUND;
}

/* With a domain of eight digits, as NVML writes it, or of four, as sysfs does. */
API(nvmlDeviceGetHandleByPciBusId_v2)(const char *id, Device *out) {
    for (unsigned int i = 0; i < COUNT; i++)
        if (!strcasecmp(id, GPUS[i].bus_id) || !strcasecmp(id, GPUS[i].bus_id + 4)) { *out = &GPUS[i]; return SUCCESS; }
    return NOT_FOUND;
}

API(nvmlDeviceGetIndex)(Device gpu, unsigned int *out) { *out = gpu - GPUS; return SUCCESS; }
API(nvmlDeviceGetMinorNumber)(Device gpu, unsigned int *out) { *out = gpu - GPUS; return SUCCESS; }
API(nvmlDeviceGetUUID)(Device gpu, char *out, unsigned int size) { return text(out, size, gpu->uuid); }
API(nvmlDeviceGetName)(Device gpu, char *out, unsigned int size) { return text(out, size, gpu->name); }
API(nvmlDeviceGetArchitecture)(Device gpu, unsigned int *out) { *out = gpu->architecture; return SUCCESS; }
API(nvmlDeviceGetBrand)(Device gpu, unsigned int *out) { *out = gpu->brand; return SUCCESS; }
API(nvmlDeviceGetNumaNodeId)(Device gpu, unsigned int *out) { *out = gpu->numa_node; return SUCCESS; }
API(nvmlDeviceGetComputeMode)(Device gpu, int *out) { *out = gpu->compute_mode; return SUCCESS; }
API(nvmlDeviceSetComputeMode)(Device gpu, int mode) { gpu->compute_mode = mode; return SUCCESS; }

API(nvmlDeviceGetCudaComputeCapability)(Device gpu, int *major, int *minor) {
    *major = gpu->major;
    *minor = gpu->minor;
    return SUCCESS;
}

API(nvmlDeviceGetMemoryInfo)(Device gpu, struct memory *out) {
    *out = (struct memory){gpu->memory, gpu->memory, 0};
    return SUCCESS;
}

API(nvmlDeviceGetPciInfo_v3)(Device gpu, struct pci *out) {
    memset(out, 0, sizeof *out);
    strcpy(out->id, gpu->bus_id);
    strcpy(out->legacy, gpu->bus_id + 4);
    out->domain = gpu->domain;
    out->bus = gpu->bus;
    out->device_id = gpu->device_id;
    return SUCCESS;
}

/* nvmlGpuFabricInfo_t, and the fields that its later versions have before and after it. */
struct fabric {
    unsigned char cluster[16];
    int status;
    unsigned int clique;
    unsigned char state;
};
struct fabric_v { unsigned int version; struct fabric fabric; unsigned int health_mask; };
enum { FABRIC_COMPLETED = 3 };

API(nvmlDeviceGetGpuFabricInfo)(Device gpu, struct fabric *out) {
    if (!gpu->in_fabric) return NOT_SUPPORTED;
    memset(out, 0, sizeof *out);
    memcpy(out->cluster, gpu->cluster, sizeof out->cluster);
    out->clique = gpu->clique;
    out->state = FABRIC_COMPLETED;
    return SUCCESS;
}

API(nvmlDeviceGetGpuFabricInfoV)(Device gpu, struct fabric_v *out) {
    int result = nvmlDeviceGetGpuFabricInfo(gpu, &out->fabric);
    if (result == SUCCESS) out->health_mask = FABRIC_HEALTH;
    return result;
}

/* Whole GPUs only: no MIG or vGPU. */
API(nvmlDeviceGetMigMode)(Device gpu, unsigned int *now, unsigned int *next) {
    (void)gpu; (void)now; (void)next;
    return NOT_SUPPORTED;
}
API(nvmlDeviceGetMaxMigDeviceCount)(Device gpu, unsigned int *out) { (void)gpu; *out = 0; return SUCCESS; }
API(nvmlDeviceIsMigDeviceHandle)(Device gpu, unsigned int *out) { (void)gpu; *out = 0; return SUCCESS; }
API(nvmlDeviceGetMigDeviceHandleByIndex)(Device gpu, unsigned int index, Device *out) {
    (void)gpu; (void)index; (void)out;
    return NOT_FOUND;
}
API(nvmlDeviceGetGpuInstanceProfileInfo)(Device gpu, unsigned int profile, void *out) {
    (void)gpu; (void)profile; (void)out;
    return NOT_SUPPORTED;
}
API(nvmlDeviceGetAddressingMode)(Device gpu, void *out) { (void)gpu; (void)out; return NOT_SUPPORTED; }
API(nvmlDeviceGetVirtualizationMode)(Device gpu, unsigned int *out) { (void)gpu; *out = 0; return SUCCESS; }

/* Programs can wait for events, but there are none. */
API(nvmlDeviceGetSupportedEventTypes)(Device gpu, unsigned long long *out) { (void)gpu; *out = 11; return SUCCESS; }
API(nvmlEventSetCreate)(void **out) { *out = GPUS; return SUCCESS; }
API(nvmlEventSetFree)(void *set) { (void)set; return SUCCESS; }
API(nvmlDeviceRegisterEvents)(Device gpu, unsigned long long types, void *set) {
    (void)gpu; (void)types; (void)set;
    return SUCCESS;
}
API(nvmlEventSetWait_v2)(void *set, void *out, unsigned int milliseconds) {
    (void)set; (void)out;
    struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    nanosleep(&left, NULL);
    return TIMEOUT;
}
