/* The library has nothing of its own: what is asked of it is in libopapi, which it loads. */
#include "aclnn/aclnn_base.h"

WEIR_ACLNN_API aclnnStatus weir_nnopbase(void);

aclnnStatus weir_nnopbase(void)
{
    return aclnnInit(NULL);
}
