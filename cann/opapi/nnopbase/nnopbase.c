/* The library has no functions of its own: it loads libopapi, which contains all of them. */
#include "aclnn/aclnn_base.h"

WEIR_ACLNN_API aclnnStatus weir_nnopbase(void);

aclnnStatus weir_nnopbase(void)
{
    return aclnnInit(NULL);
}
