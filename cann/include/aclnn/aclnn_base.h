/* Initialisation and finalisation of the operator library. weir needs neither: both do nothing. */
#ifndef WEIR_ACLNN_BASE_H
#define WEIR_ACLNN_BASE_H

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

WEIR_ACLNN_API aclnnStatus aclnnInit(const char *configPath);
WEIR_ACLNN_API aclnnStatus aclnnFinalize(void);

#ifdef __cplusplus
}
#endif
#endif
