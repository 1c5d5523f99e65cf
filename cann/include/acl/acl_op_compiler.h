/* What other programs include by this name. */
#include "acl_op.h"
