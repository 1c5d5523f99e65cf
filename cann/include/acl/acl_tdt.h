/* Channels of tensors from a graph to the host, according to the Apache-2.0 header of 2020 and
 * MindSpore's use of them. Graphs on weir send nothing, so a channel is always empty. */
#ifndef WEIR_ACL_TDT_H
#define WEIR_ACL_TDT_H

#include "acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct acltdtChannelHandle acltdtChannelHandle;
typedef struct acltdtDataset acltdtDataset;
typedef struct acltdtDataItem acltdtDataItem;

acltdtChannelHandle *acltdtCreateChannel(uint32_t deviceId, const char *name);
acltdtChannelHandle *acltdtCreateChannelWithCapacity(uint32_t deviceId, const char *name,
                                                     size_t capacity);
aclError acltdtStopChannel(acltdtChannelHandle *handle);
aclError acltdtDestroyChannel(acltdtChannelHandle *handle);
aclError acltdtQueryChannelSize(const acltdtChannelHandle *handle, size_t *size);
/* Waits `timeout` ms (-1: until the channel is stopped), then returns ACL_ERROR_RT_QUEUE_EMPTY. */
aclError acltdtReceiveTensor(const acltdtChannelHandle *handle, acltdtDataset *dataset,
                             int32_t timeout);
aclError acltdtSendTensor(const acltdtChannelHandle *handle, const acltdtDataset *dataset,
                          int32_t timeout);
acltdtDataset *acltdtCreateDataset(void);
aclError acltdtDestroyDataset(acltdtDataset *dataset);
size_t acltdtGetDatasetSize(const acltdtDataset *dataset);
const char *acltdtGetDatasetName(const acltdtDataset *dataset);
acltdtDataItem *acltdtGetDataItem(const acltdtDataset *dataset, size_t index);
aclDataType acltdtGetDataTypeFromItem(const acltdtDataItem *dataItem);
void *acltdtGetDataAddrFromItem(const acltdtDataItem *dataItem);
size_t acltdtGetDataSizeFromItem(const acltdtDataItem *dataItem);
size_t acltdtGetDimNumFromItem(const acltdtDataItem *dataItem);
aclError acltdtGetDimsFromItem(const acltdtDataItem *dataItem, int64_t *dims, size_t dimNum);

#ifdef __cplusplus
}
#endif
#endif
