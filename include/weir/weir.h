/* weir: a multi-stream execution runtime for AI accelerators. */
#ifndef WEIR_H
#define WEIR_H

#include "check.h"
#include "comm.h"
#include "device.h"
#include "graph.h"
#include "launch.h"
#include "memory.h"
#include "ops.h"
#include "procs.h"
#include "race.h"
#include "scope.h"
#include "status.h"
#include "stream.h"
#include "tensor.h"
#include "token.h"
#include "trace.h"
#include "view.h"

#endif
