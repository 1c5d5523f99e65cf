/* For programs that include this name. */
#include "acl_op.h"
