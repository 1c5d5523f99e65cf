/* HCCL as weir offers it: collectives between processes of one machine, and between devices of one
 * process.
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

/* name, number, text. What failed in detail aclGetRecentErrMsg has. */
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

/* One rank makes it and gives it to the others. Those of its host must be of its user. If one is of
 * another host, rank 0 must be of the host that made it: there it listens, at HCCL_IF_IP, else at
 * the address towards MASTER_ADDR. What connects hosts is weir's engine `mpi` (weir/procs.h): all
 * ranks are started by mpirun. WEIR_ENGINE, if set, names the engine whatever the hosts are. */
HcclResult HcclGetRootInfo(HcclRootInfo *rootInfo);
/* Waits until all ranks have called, HCCL_CONNECT_TIMEOUT seconds (120) at most; then the error
 * names those that have not. */
HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank,
                                HcclComm *comm);
HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank,
                                      const HcclCommConfig *config, HcclComm *comm);
/* Devices of this process. */
HcclResult HcclCommInitAll(uint32_t ndev, int32_t *devices, HcclComm *comms);
/* A table of ranks in a file: not supported, ranks find each other by root information. */
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
/* All of them at once, in any order on either side. */
HcclResult HcclBatchSendRecv(HcclSendRecvItem *sendRecvInfo, uint32_t itemNum, HcclComm comm,
                             aclrtStream stream);

/* Counts of all ranks: the row is who sends, the column to whom. Parts lie one after the other. */
HcclResult HcclAlltoAllVC(const void *sendBuf, const void *sendCountMatrix, HcclDataType sendType,
                          const void *recvBuf, HcclDataType recvType, HcclComm comm,
                          aclrtStream stream);

/* Being told of memory changes nothing; a broken communicator stays so; the other two are not
 * supported. */
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

/* Settings: kept nowhere, since there is nothing to set. */
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
