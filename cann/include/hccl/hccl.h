/* HCCL as weir implements it: collectives between processes of one machine, and between devices of
 * one process.
 *
 * Functions and the order of their arguments follow torch_npu's BSD-3 calls of them
 * (HcclCompile.h); numbers of results and reductions, and the size of HcclRootInfo, graphengine's
 * Apache-2.0 hccl_types.h of 2020; of types, vllm-ascend's Apache-2.0 pyhccl_wrapper.py; where the
 * members of HcclSendRecvItem lie, what the torch_npu wheel passes. docs/cann.md has the rule.
 */
#ifndef WEIR_HCCL_H
#define WEIR_HCCL_H

#include "../acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* name, number, text. aclGetRecentErrMsg returns the detailed reason of a failure. */
#define WEIR_HCCL_RESULT_LIST(X)                        \
    X(HCCL_SUCCESS, 0, "success")                       \
    X(HCCL_E_PARA, 1, "a parameter is invalid")         \
    X(HCCL_E_PTR, 2, "a pointer is NULL")               \
    X(HCCL_E_MEMORY, 3, "out of memory")                \
    X(HCCL_E_INTERNAL, 4, "internal error")             \
    X(HCCL_E_NOT_SUPPORT, 5, "not supported")           \
    X(HCCL_E_TIMEOUT, 9, "a rank did not come in time") \
    X(HCCL_E_NETWORK, 19, "another rank failed")

typedef enum {
#define WEIR_HCCL_RESULT_ENUM(name, number, text) name = number,
    WEIR_HCCL_RESULT_LIST(WEIR_HCCL_RESULT_ENUM)
#undef WEIR_HCCL_RESULT_ENUM
} HcclResult;

typedef enum {
    HCCL_DATA_TYPE_INT8 = 0,
    HCCL_DATA_TYPE_INT16 = 1,
    HCCL_DATA_TYPE_INT32 = 2,
    HCCL_DATA_TYPE_FP16 = 3,
    HCCL_DATA_TYPE_FP32 = 4,
    HCCL_DATA_TYPE_INT64 = 5,
    HCCL_DATA_TYPE_UINT64 = 6,
    HCCL_DATA_TYPE_UINT8 = 7,
    HCCL_DATA_TYPE_UINT16 = 8,
    HCCL_DATA_TYPE_UINT32 = 9,
    HCCL_DATA_TYPE_FP64 = 10,
    HCCL_DATA_TYPE_BFP16 = 11,
    HCCL_DATA_TYPE_COUNT
} HcclDataType;

typedef enum {
    HCCL_REDUCE_SUM = 0,
    HCCL_REDUCE_PROD = 1,
    HCCL_REDUCE_MAX = 2,
    HCCL_REDUCE_MIN = 3,
    HCCL_REDUCE_COUNT
} HcclReduceOp;

typedef void *HcclComm;
#define HCCL_ROOT_INFO_BYTES 4108
typedef struct {
    char internal[HCCL_ROOT_INFO_BYTES];
} HcclRootInfo;
typedef struct HcclCommConfig HcclCommConfig; /* not read */

typedef enum { HCCL_SEND = 0, HCCL_RECV = 1 } HcclSendRecvType;
typedef struct {
    HcclSendRecvType sendRecvType;
    void *buf;
    uint64_t count;
    HcclDataType dataType;
    uint32_t remoteRank;
} HcclSendRecvItem;

const char *HcclGetErrorString(HcclResult code);

/* ---- communicators ---- */

/* One rank creates the root information and sends it to the others. Ranks on its host must run as
 * the same user. If a rank is on another host, rank 0 must be on the host that created it, where it
 * listens at HCCL_IF_IP, or else at the address towards MASTER_ADDR. Hosts are connected by weir's
 * engine `mpi` (weir/procs.h), so all ranks must be started by mpirun. WEIR_ENGINE, if set, selects
 * the engine in any case. */
HcclResult HcclGetRootInfo(HcclRootInfo *rootInfo);
/* Waits until all ranks have called, for at most HCCL_CONNECT_TIMEOUT seconds (120). The error
 * names the ranks that have not. */
HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank,
                                HcclComm *comm);
HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank,
                                      const HcclCommConfig *config, HcclComm *comm);
/* Devices of this process. */
HcclResult HcclCommInitAll(uint32_t ndev, int32_t *devices, HcclComm *comms);
/* A table of ranks in a file is not supported: use root information. */
HcclResult HcclCommInitClusterInfo(const char *clusterInfo, uint32_t rank, HcclComm *comm);
HcclResult HcclCommInitClusterInfoConfig(const char *clusterInfo, uint32_t rank,
                                         HcclCommConfig *config, HcclComm *comm);
HcclResult HcclCommDestroy(HcclComm comm);
HcclResult HcclGetRankSize(HcclComm comm, uint32_t *rankSize);
HcclResult HcclGetRankId(HcclComm comm, uint32_t *rank);
HcclResult HcclGetCommName(HcclComm comm, char *commName); /* 128 bytes */
HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult *asyncError);
uint32_t HcclGetCommConfigCapability(void);

/* ---- collectives: queued on the stream. Reductions add in the order of the ranks ---- */

HcclResult HcclAllReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType,
                         HcclReduceOp op, HcclComm comm, aclrtStream stream);
HcclResult HcclBroadcast(void *buf, uint64_t count, HcclDataType dataType, uint32_t root,
                         HcclComm comm, aclrtStream stream);
HcclResult HcclReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType,
                      HcclReduceOp op, uint32_t root, HcclComm comm, aclrtStream stream);
HcclResult HcclAllGather(void *sendBuf, void *recvBuf, uint64_t sendCount, HcclDataType dataType,
                         HcclComm comm, aclrtStream stream);
HcclResult HcclReduceScatter(void *sendBuf, void *recvBuf, uint64_t recvCount,
                             HcclDataType dataType, HcclReduceOp op, HcclComm comm,
                             aclrtStream stream);
HcclResult HcclScatter(void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType,
                       uint32_t root, HcclComm comm, aclrtStream stream);
HcclResult HcclAlltoAll(const void *sendBuf, uint64_t sendCount, HcclDataType sendType,
                        const void *recvBuf, uint64_t recvCount, HcclDataType recvType,
                        HcclComm comm, aclrtStream stream);
/* Counts and displacements are uint64_t, in elements, one for each rank. */
HcclResult HcclAlltoAllV(const void *sendBuf, const void *sendCounts, const void *sdispls,
                         HcclDataType sendType, const void *recvBuf, const void *recvCounts,
                         const void *rdispls, HcclDataType recvType, HcclComm comm,
                         aclrtStream stream);
HcclResult HcclAllGatherV(const void *sendBuf, uint64_t sendCount, const void *recvBuf,
                          const void *recvCounts, const void *rdispls, HcclDataType dataType,
                          HcclComm comm, aclrtStream stream);
HcclResult HcclReduceScatterV(const void *sendBuf, const void *sendCounts, const void *sdispls,
                              const void *recvBuf, uint64_t recvCount, HcclDataType dataType,
                              HcclReduceOp op, HcclComm comm, aclrtStream stream);
HcclResult HcclBarrier(HcclComm comm, aclrtStream stream);
HcclResult HcclSend(void *sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank,
                    HcclComm comm, aclrtStream stream);
HcclResult HcclRecv(void *recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank,
                    HcclComm comm, aclrtStream stream);
/* Does all sends and receives at once; their order does not matter. */
HcclResult HcclBatchSendRecv(HcclSendRecvItem *sendRecvInfo, uint32_t itemNum, HcclComm comm,
                             aclrtStream stream);

/* The counts of all ranks: row = sender, column = receiver. The parts are contiguous. */
HcclResult HcclAlltoAllVC(const void *sendBuf, const void *sendCountMatrix, HcclDataType sendType,
                          const void *recvBuf, HcclDataType recvType, HcclComm comm,
                          aclrtStream stream);

/* Registering memory has no effect; a broken communicator stays broken; the other two functions are
 * not supported. */
HcclResult HcclCommSetMemoryRange(HcclComm comm, void *virPtr, size_t size, size_t alignment,
                                  uint64_t flags);
HcclResult HcclCommUnsetMemoryRange(HcclComm comm, void *virPtr);
HcclResult HcclCommActivateCommMemory(HcclComm comm, void *virPtr, size_t size, size_t offset,
                                      void *handle, uint64_t flags);
HcclResult HcclCommDeactivateCommMemory(HcclComm comm, void *virPtr);
HcclResult HcclCommResume(HcclComm comm);
HcclResult HcclCommWorkingDevNicSet(HcclComm comm, uint32_t *ranks, bool *useBackup,
                                    uint32_t nRanks);
HcclResult HcclCreateSubCommConfig(HcclComm *comm, uint32_t rankNum, uint32_t *rankIds,
                                   uint64_t subCommId, uint32_t subCommRankId,
                                   HcclCommConfig *config, HcclComm *subComm);

/* Settings: ignored, since there is nothing to set. */
typedef enum { HCCL_DETERMINISTIC = 0 } HcclConfig;
typedef union {
    int32_t value;
} HcclConfigValue;
HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue);
HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue *configValue);

#ifdef __cplusplus
}
#endif
#endif
