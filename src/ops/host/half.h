#include "base/half.h"
