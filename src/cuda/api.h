/* The NVIDIA libraries: one table per library with every function that weir calls, and the few
 * types and constants that they use. Building needs no CUDA files; the libraries are opened when
 * the device is first used. Layouts and numbers are those of CUDA's stable ABI. */
#ifndef WEIR_CUDA_API_H
#define WEIR_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

typedef int weir__cu_result; /* 0 is success */
typedef int weir__cu_device;
typedef uint64_t weir__cu_address;
typedef void *weir__cu_context, *weir__cu_green, *weir__cu_stream, *weir__cu_event;
typedef void *weir__cu_module, *weir__cu_function, *weir__cu_graph, *weir__cu_exec;
typedef void *weir__cu_node, *weir__cu_descriptor;
typedef void (*weir__cu_host_fn)(void *user);

enum {
    CU_ERROR_OUT_OF_MEMORY = 2,
    CU_ERROR_NOT_READY = 600,
    CU_ATTRIBUTE_MULTIPROCESSORS = 16,
    CU_ATTRIBUTE_MAJOR = 75,
    CU_ATTRIBUTE_MINOR = 76,
    CU_ATTRIBUTE_SHARED_OPTIN = 97,
    CU_ATTRIBUTE_VIRTUAL_MEMORY = 102,
    CU_ATTRIBUTE_CLUSTERS = 120,
    CU_ATTRIBUTE_STREAM_MEMORY_64 = 122,
    CU_STREAM_NON_BLOCKING = 1,
    CU_EVENT_DEFAULT = 0,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_EVENT_RECORD_EXTERNAL = 1,
    CU_NODE_KERNEL = 0,
    CU_NODE_EVENT_RECORD = 7,
    CU_WAIT_GEQ = 0,
    CU_CAPTURE_RELAXED = 2,
    CU_FUNCTION_DYNAMIC_SHARED = 8,
    CU_LAUNCH_CLUSTER = 4,
    CU_LAUNCH_PROGRAMMATIC_SERIALIZATION = 6,
    CU_HOST_ALLOC_PORTABLE_MAPPED = 3,
    CU_MEMORY_PINNED = 1,
    CU_LOCATION_DEVICE = 1,
    CU_ACCESS_READ_WRITE = 3,
    CU_GRANULARITY_RECOMMENDED = 1,
    CU_RESOURCE_SM = 1,
    CU_GREEN_DEFAULT_STREAM = 1,
    CU_POINTER_MEMORY_TYPE = 2,
    CU_POINTER_ORDINAL = 9,
    CU_TILES_F16 = 6, /* for all two-byte types, because elements are only moved */
    CU_TILES_SWIZZLE_128 = 3,
    CU_TILES_PROMOTE_128 = 2,
    CU_MEMORY_HOST = 1,
    CU_MEMORY_DEVICE = 2,
    CU_IPC_LAZY_PEER_ACCESS = 1,
};

struct weir__cu_location {
    int type, id;
};

struct weir__cu_memory {
    int type, handle_types;
    struct weir__cu_location location;
    void *windows;
    unsigned char flags[8];
};

struct weir__cu_ipc {
    unsigned char bytes[64];
};

struct weir__cu_access {
    struct weir__cu_location location;
    int flags;
};

struct weir__cu_resource {
    int type;
    unsigned char padding[92];
    union {
        struct {
            unsigned sm_count, min_part, alignment;
        } sm;
        unsigned char bytes[48];
    } u;
};

/* A tensor map, by which the GPU fetches tiles of a tensor. Opaque; aligned as kernel parameters
 * need it. */
struct weir__cu_tile_map {
    _Alignas(64) uint64_t words[16];
};

struct weir__cu_update {
    int result;
    void *error_node, *error_from;
};

union weir__cu_launch_value {
    int on;
    unsigned cluster[3]; /* blocks */
    uint64_t words[8];
};

struct weir__cu_launch_attribute {
    int id;
    union weir__cu_launch_value value;
};

struct weir__cu_launch {
    unsigned grid[3], block[3], shared;
    weir__cu_stream stream;
    const struct weir__cu_launch_attribute *attributes;
    unsigned nattributes;
};

/* A kernel node of a graph: what it launches. */
struct weir__cu_node_kernel {
    weir__cu_function function; /* NULL if the kernel is one of a library */
    unsigned grid[3], block[3], shared;
    void **params, **extra;
    void *kernel;
    weir__cu_context context;
};

/* symbol in the library, name here, parameters. Each returns a weir__cu_result. */
#define WEIR__CU_SYMBOLS(X)                                                                        \
    X(cuInit, init, (unsigned flags))                                                              \
    X(cuDriverGetVersion, driver_version, (int *version))                                          \
    X(cuGetErrorString, error_string, (weir__cu_result code, const char **text))                   \
    X(cuDeviceGetCount, device_count, (int *count))                                                \
    X(cuDeviceGet, device_get, (weir__cu_device * device, int ordinal))                            \
    X(cuDeviceGetName, device_name, (char *name, int size, weir__cu_device device))                \
    X(cuDeviceGetAttribute, device_attribute, (int *value, int attribute, weir__cu_device device)) \
    X(cuDeviceCanAccessPeer, device_reaches,                                                       \
      (int *can, weir__cu_device device, weir__cu_device peer))                                    \
    X(cuDeviceTotalMem_v2, device_memory, (size_t * bytes, weir__cu_device device))                \
    X(cuDevicePrimaryCtxRetain, primary_retain,                                                    \
      (weir__cu_context * context, weir__cu_device device))                                        \
    X(cuDevicePrimaryCtxRelease_v2, primary_release, (weir__cu_device device))                     \
    X(cuCtxGetCurrent, context_current, (weir__cu_context * context))                              \
    X(cuCtxPushCurrent_v2, context_push, (weir__cu_context context))                               \
    X(cuCtxPopCurrent_v2, context_pop, (weir__cu_context * context))                               \
    X(cuCtxSynchronize, context_sync, (void))                                                      \
    X(cuCtxGetStreamPriorityRange, priority_range, (int *least, int *greatest))                    \
    X(cuMemGetInfo_v2, memory_info, (size_t * available, size_t * total))                          \
    X(cuMemAlloc_v2, memory_alloc, (weir__cu_address * address, size_t size))                      \
    X(cuMemFree_v2, memory_free, (weir__cu_address address))                                       \
    X(cuIpcGetMemHandle, ipc_get, (struct weir__cu_ipc * handle, weir__cu_address address))        \
    X(cuIpcOpenMemHandle_v2, ipc_open,                                                             \
      (weir__cu_address * address, struct weir__cu_ipc handle, unsigned flags))                    \
    X(cuIpcCloseMemHandle, ipc_close, (weir__cu_address address))                                  \
    X(cuMemHostAlloc, host_alloc, (void **address, size_t size, unsigned flags))                   \
    X(cuMemFreeHost, host_free, (void *address))                                                   \
    X(cuMemGetAllocationGranularity, granularity,                                                  \
      (size_t * bytes, const struct weir__cu_memory *memory, int option))                          \
    X(cuMemAddressReserve, address_reserve,                                                        \
      (weir__cu_address * address, size_t size, size_t align, weir__cu_address hint,               \
       uint64_t flags))                                                                            \
    X(cuMemAddressFree, address_free, (weir__cu_address address, size_t size))                     \
    X(cuMemCreate, memory_create,                                                                  \
      (uint64_t * handle, size_t size, const struct weir__cu_memory *memory, uint64_t flags))      \
    X(cuMemRelease, memory_release, (uint64_t handle))                                             \
    X(cuMemMap, memory_map,                                                                        \
      (weir__cu_address address, size_t size, size_t offset, uint64_t handle, uint64_t flags))     \
    X(cuMemUnmap, memory_unmap, (weir__cu_address address, size_t size))                           \
    X(cuMemSetAccess, memory_access,                                                               \
      (weir__cu_address address, size_t size, const struct weir__cu_access *access, size_t n))     \
    X(cuPointerGetAttributes, pointer_attributes,                                                  \
      (unsigned n, int *attributes, void **values, weir__cu_address address))                      \
    X(cuMemcpyAsync, copy_async,                                                                   \
      (weir__cu_address to, weir__cu_address from, size_t size, weir__cu_stream stream))           \
    X(cuMemsetD8Async, fill_async,                                                                 \
      (weir__cu_address to, unsigned char value, size_t size, weir__cu_stream stream))             \
    X(cuStreamCreateWithPriority, stream_create,                                                   \
      (weir__cu_stream * stream, unsigned flags, int priority))                                    \
    X(cuStreamDestroy_v2, stream_destroy, (weir__cu_stream stream))                                \
    X(cuStreamQuery, stream_query, (weir__cu_stream stream))                                       \
    X(cuStreamWaitEvent, stream_wait,                                                              \
      (weir__cu_stream stream, weir__cu_event event, unsigned flags))                              \
    X(cuStreamWriteValue64_v2, stream_write,                                                       \
      (weir__cu_stream stream, weir__cu_address to, uint64_t value, unsigned flags))               \
    X(cuStreamWaitValue64_v2, stream_wait_value,                                                   \
      (weir__cu_stream stream, weir__cu_address of, uint64_t value, unsigned flags))               \
    X(cuStreamBeginCapture_v2, capture_begin, (weir__cu_stream stream, int mode))                  \
    X(cuStreamGetCaptureInfo_v3, capture_info,                                                     \
      (weir__cu_stream stream, int *status, uint64_t *id, weir__cu_graph *graph,                   \
       const weir__cu_node **last, const void **edges, size_t *n))                                 \
    X(cuStreamEndCapture, capture_end, (weir__cu_stream stream, weir__cu_graph * graph))           \
    X(cuLaunchHostFunc, launch_host, (weir__cu_stream stream, weir__cu_host_fn fn, void *user))    \
    X(cuEventCreate, event_create, (weir__cu_event * event, unsigned flags))                       \
    X(cuEventDestroy_v2, event_destroy, (weir__cu_event event))                                    \
    X(cuEventRecord, event_record, (weir__cu_event event, weir__cu_stream stream))                 \
    X(cuEventRecordWithFlags, event_record_with,                                                   \
      (weir__cu_event event, weir__cu_stream stream, unsigned flags))                              \
    X(cuEventSynchronize, event_sync, (weir__cu_event event))                                      \
    X(cuEventElapsedTime, event_elapsed,                                                           \
      (float *milliseconds, weir__cu_event start, weir__cu_event end))                             \
    X(cuModuleLoadData, module_load, (weir__cu_module * module, const void *image))                \
    X(cuModuleUnload, module_unload, (weir__cu_module module))                                     \
    X(cuModuleGetFunction, module_function,                                                        \
      (weir__cu_function * function, weir__cu_module module, const char *name))                    \
    X(cuFuncSetAttribute, function_attribute,                                                      \
      (weir__cu_function function, int attribute, int value))                                      \
    X(cuLaunchKernel, launch,                                                                      \
      (weir__cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,              \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,                      \
       weir__cu_stream stream, void **params, void **extra))                                       \
    X(cuTensorMapEncodeTiled, tile_map,                                                            \
      (struct weir__cu_tile_map * map, int type, unsigned rank, void *address,                     \
       const uint64_t *sizes, const uint64_t *strides, const uint32_t *box,                        \
       const uint32_t *element_strides, int interleave, int swizzle, int promotion, int fill))     \
    X(cuLaunchKernelEx, launch_with,                                                               \
      (const struct weir__cu_launch *how, weir__cu_function function, void **params,               \
       void **extra))                                                                              \
    X(cuGraphInstantiateWithFlags, graph_instantiate,                                              \
      (weir__cu_exec * exec, weir__cu_graph graph, uint64_t flags))                                \
    X(cuGraphGetNodes, graph_nodes, (weir__cu_graph graph, weir__cu_node * nodes, size_t * n))     \
    X(cuGraphNodeGetDependencies_v2, node_before,                                                  \
      (weir__cu_node node, weir__cu_node * before, uint64_t * edges, size_t * n))                  \
    X(cuGraphNodeGetType, node_type, (weir__cu_node node, int *type))                              \
    X(cuGraphKernelNodeGetParams_v2, node_kernel,                                                  \
      (weir__cu_node node, struct weir__cu_node_kernel * kernel))                                  \
    X(cuGraphKernelNodeGetAttribute, node_attribute,                                               \
      (weir__cu_node node, int id, union weir__cu_launch_value *value))                            \
    X(cuGraphExecKernelNodeSetParams_v2, exec_set_kernel,                                          \
      (weir__cu_exec exec, weir__cu_node node, const struct weir__cu_node_kernel *kernel))         \
    X(cuGraphEventRecordNodeGetEvent, node_event, (weir__cu_node node, weir__cu_event * event))    \
    X(cuGraphExecEventRecordNodeSetEvent, exec_set_event,                                          \
      (weir__cu_exec exec, weir__cu_node node, weir__cu_event event))                              \
    X(cuGraphDestroy, graph_destroy, (weir__cu_graph graph))                                       \
    X(cuGraphExecDestroy, exec_destroy, (weir__cu_exec exec))                                      \
    X(cuGraphExecUpdate_v2, exec_update,                                                           \
      (weir__cu_exec exec, weir__cu_graph graph, struct weir__cu_update * result))                 \
    X(cuGraphLaunch, exec_launch, (weir__cu_exec exec, weir__cu_stream stream))                    \
    X(cuDeviceGetDevResource, device_resource,                                                     \
      (weir__cu_device device, struct weir__cu_resource * resource, int type))                     \
    X(cuDevSmResourceSplitByCount, resource_split,                                                 \
      (struct weir__cu_resource * result, unsigned *groups, const struct weir__cu_resource *input, \
       struct weir__cu_resource *rest, unsigned flags, unsigned min_count))                        \
    X(cuDevResourceGenerateDesc, resource_descriptor,                                              \
      (weir__cu_descriptor * out, struct weir__cu_resource * resources, unsigned n))               \
    X(cuGreenCtxCreate, green_create,                                                              \
      (weir__cu_green * green, weir__cu_descriptor desc, weir__cu_device device, unsigned flags))  \
    X(cuGreenCtxDestroy, green_destroy, (weir__cu_green green))                                    \
    X(cuGreenCtxStreamCreate, green_stream,                                                        \
      (weir__cu_stream * stream, weir__cu_green green, unsigned flags, int priority))

/* The compiler of kernel sources. */
#define WEIR__NVRTC_SYMBOLS(X)                                                                 \
    X(nvrtcVersion, version, (int *major, int *minor))                                         \
    X(nvrtcCreateProgram, create,                                                              \
      (void **program, const char *text, const char *name, int nheaders,                       \
       const char *const *headers, const char *const *names))                                  \
    X(nvrtcDestroyProgram, destroy, (void **program))                                          \
    X(nvrtcCompileProgram, compile, (void *program, int noptions, const char *const *options)) \
    X(nvrtcGetCUBINSize, cubin_size, (void *program, size_t *size))                            \
    X(nvrtcGetCUBIN, cubin, (void *program, char *bytes))                                      \
    X(nvrtcGetProgramLogSize, log_size, (void *program, size_t *size))                         \
    X(nvrtcGetProgramLog, log, (void *program, char *text))

enum {
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_64F = 70,
    CUDA_R_32F = 0,
    CUDA_R_64F = 1,
    CUDA_R_16F = 2,
    CUDA_R_16BF = 14,
    CUBLASLT_DESC_TRANSA = 3,
    CUBLASLT_DESC_TRANSB = 4,
    CUBLASLT_DESC_EPILOGUE = 7,
    CUBLASLT_DESC_BIAS_POINTER = 8,
    CUBLASLT_DESC_SM_COUNT = 15,
    CUBLASLT_EPILOGUE_BIAS = 4,
    CUBLASLT_LAYOUT_BATCH_COUNT = 5,
    CUBLASLT_LAYOUT_BATCH_STEP = 6,
    CUBLASLT_PREFER_WORKSPACE = 1,
    CUBLASLT_PREFER_REDUCTIONS = 3,
    CUBLASLT_REDUCTIONS_IN_COMPUTE_TYPE = 3, /* no reductions that round in between */
    CUBLASLT_PREFER_ALIGNMENT_A = 5,         /* B, C and D follow */
};

struct weir__lt_algo {
    uint64_t data[8];
};

struct weir__lt_result {
    struct weir__lt_algo algo;
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
};

/* Matrix products. Each returns 0 on success. */
#define WEIR__CUBLASLT_SYMBOLS(X)                                                                  \
    X(cublasLtGetVersion, version, (void)) /* as a number, not a status */                         \
    X(cublasLtCreate, create, (void **handle))                                                     \
    X(cublasLtDestroy, destroy, (void *handle))                                                    \
    X(cublasLtMatmulDescCreate, desc_create, (void **desc, int compute, int scale))                \
    X(cublasLtMatmulDescDestroy, desc_destroy, (void *desc))                                       \
    X(cublasLtMatmulDescSetAttribute, desc_set,                                                    \
      (void *desc, int attribute, const void *value, size_t size))                                 \
    X(cublasLtMatrixLayoutCreate, layout_create,                                                   \
      (void **layout, int type, uint64_t rows, uint64_t cols, int64_t step))                       \
    X(cublasLtMatrixLayoutDestroy, layout_destroy, (void *layout))                                 \
    X(cublasLtMatrixLayoutSetAttribute, layout_set,                                                \
      (void *layout, int attribute, const void *value, size_t size))                               \
    X(cublasLtMatmulPreferenceCreate, preference_create, (void **preference))                      \
    X(cublasLtMatmulPreferenceDestroy, preference_destroy, (void *preference))                     \
    X(cublasLtMatmulPreferenceSetAttribute, preference_set,                                        \
      (void *preference, int attribute, const void *value, size_t size))                           \
    X(cublasLtMatmulAlgoGetHeuristic, heuristic,                                                   \
      (void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int wanted, \
       struct weir__lt_result *results, int *found))                                               \
    X(cublasLtMatmulAlgoCheck, check,                                                              \
      (void *handle, void *desc, void *a, void *b, void *c, void *d,                               \
       const struct weir__lt_algo *algo, struct weir__lt_result *result))                          \
    X(cublasLtMatmul, matmul,                                                                      \
      (void *handle, void *desc, const void *alpha, const void *a, void *a_layout, const void *b,  \
       void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,   \
       const struct weir__lt_algo *algo, void *workspace, size_t workspace_size,                   \
       weir__cu_stream stream))

#define WEIR__CU_MEMBER(symbol, name, params) weir__cu_result(*name) params;
struct weir__cu {
    WEIR__CU_SYMBOLS(WEIR__CU_MEMBER)
};
struct weir__nvrtc {
    WEIR__NVRTC_SYMBOLS(WEIR__CU_MEMBER)
};
struct weir__cublaslt {
    WEIR__CUBLASLT_SYMBOLS(WEIR__CU_MEMBER)
};
#undef WEIR__CU_MEMBER

/* The libraries, opened once per process and never closed. If a library cannot be opened, its table
 * is empty and the text says why.
 * threads  any. */
struct weir__cuda_api {
    struct weir__cu cu;
    struct weir__nvrtc nvrtc;
    struct weir__cublaslt lt;
    char no_driver[256]; /* "" if there is a driver and it has a GPU */
    char no_compiler[256];
    char no_products[256];
};
const struct weir__cuda_api *weir__cuda_api_get(void);

/* Returns a text such as "invalid device context (201)", usable as an argument of a call. */
struct weir__cuda_text {
    char text[160];
};
struct weir__cuda_text weir__cuda_error(weir__cu_result code);

#endif
