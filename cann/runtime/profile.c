/* Calls of profilers, dumps and logs. weir records traces instead of profiles, so these calls
 * succeed and do nothing. */
#include "runtime/runtime.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "acl/acl_prof.h"

static char config, step, stamp; /* the objects behind all handles of these kinds */

EXPORT aclError aclprofInit(const char *profilerResultPath, size_t length)
{
    NEED(profilerResultPath);
    (void)length;
    return ACL_SUCCESS;
}
EXPORT aclError aclprofFinalize(void)
{
    return ACL_SUCCESS;
}
EXPORT aclError aclprofStart(const aclprofConfig *profilerConfig)
{
    NEED(profilerConfig);
    return ACL_SUCCESS;
}
EXPORT aclError aclprofStop(const aclprofConfig *profilerConfig)
{
    NEED(profilerConfig);
    return ACL_SUCCESS;
}
EXPORT aclError aclprofSetConfig(int configType, const char *text, size_t configLength)
{
    (void)configType, (void)configLength;
    NEED(text);
    return ACL_SUCCESS;
}
EXPORT aclprofConfig *aclprofCreateConfig(uint32_t *deviceIdList, uint32_t deviceNums,
                                          aclprofAicoreMetrics aicoreMetrics,
                                          aclprofAicoreEvents *aicoreEvents,
                                          uint64_t dataTypeConfig)
{
    (void)deviceIdList, (void)deviceNums, (void)aicoreMetrics, (void)aicoreEvents;
    (void)dataTypeConfig;
    return (aclprofConfig *)&config;
}
EXPORT aclError aclprofDestroyConfig(const aclprofConfig *profilerConfig)
{
    NEED(profilerConfig);
    return ACL_SUCCESS;
}
EXPORT aclprofStepInfo *aclprofCreateStepInfo(void)
{
    return (aclprofStepInfo *)&step;
}
EXPORT void aclprofDestroyStepInfo(aclprofStepInfo *stepInfo)
{
    (void)stepInfo;
}
EXPORT aclError aclprofGetStepTimestamp(aclprofStepInfo *stepInfo, aclprofStepTag tag,
                                        aclrtStream stream)
{
    struct stream *s;

    (void)tag;
    NEED(stepInfo);
    return stream_get(stream, &s);
}
EXPORT void *aclprofCreateStamp(void)
{
    return &stamp;
}
EXPORT void aclprofDestroyStamp(void *s)
{
    (void)s;
}
EXPORT aclError aclprofSetStampTraceMessage(void *s, const char *msg, uint32_t msgLen)
{
    (void)msgLen;
    NEED(s);
    NEED(msg);
    return ACL_SUCCESS;
}
EXPORT aclError aclprofMark(void *s)
{
    NEED(s);
    return ACL_SUCCESS;
}
EXPORT aclError aclprofMarkEx(const char *msg, size_t msgLen, aclrtStream stream)
{
    struct stream *s;

    (void)msgLen;
    NEED(msg);
    return stream_get(stream, &s);
}
EXPORT aclError aclprofRangeStart(void *s, uint32_t *rangeId)
{
    NEED(s);
    NEED(rangeId);
    *rangeId = next_id();
    return ACL_SUCCESS;
}
EXPORT aclError aclprofRangeStop(uint32_t rangeId)
{
    (void)rangeId;
    return ACL_SUCCESS;
}

/* ---- functions of CANN's profiler that libtorch_npu links to ---- */

int32_t MsprofRegisterCallback(uint32_t moduleId, void *handle);
int32_t MsprofReportApi(uint32_t nonPersistent, const void *api);
int32_t MsprofReportCompactInfo(uint32_t nonPersistent, const void *data, uint32_t length);
int32_t MsprofReportAdditionalInfo(uint32_t nonPersistent, const void *data, uint32_t length);
uint64_t MsprofGetHashId(const char *text, size_t length);
uint64_t MsprofSysCycleTime(void);

EXPORT int32_t MsprofRegisterCallback(uint32_t moduleId, void *handle)
{
    (void)moduleId, (void)handle;
    return 0;
}
EXPORT int32_t MsprofReportApi(uint32_t nonPersistent, const void *api)
{
    (void)nonPersistent, (void)api;
    return 0;
}
EXPORT int32_t MsprofReportCompactInfo(uint32_t nonPersistent, const void *data, uint32_t length)
{
    (void)nonPersistent, (void)data, (void)length;
    return 0;
}
EXPORT int32_t MsprofReportAdditionalInfo(uint32_t nonPersistent, const void *data, uint32_t length)
{
    (void)nonPersistent, (void)data, (void)length;
    return 0;
}
EXPORT uint64_t MsprofGetHashId(const char *text, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */

    for (size_t i = 0; text && i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3;
    return hash;
}
EXPORT uint64_t MsprofSysCycleTime(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- dumps ---- */

EXPORT aclError aclmdlInitDump(void)
{
    return ACL_SUCCESS;
}
EXPORT aclError aclmdlSetDump(const char *dumpCfgPath)
{
    NEED(dumpCfgPath);
    return FAIL(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "operands are not dumped: %s", dumpCfgPath);
}
EXPORT aclError aclmdlFinalizeDump(void)
{
    return ACL_SUCCESS;
}

aclError aclopStartDumpArgs(uint32_t dumpType, const char *path);
aclError aclopStopDumpArgs(uint32_t dumpType);

EXPORT aclError aclopStartDumpArgs(uint32_t dumpType, const char *path)
{
    (void)dumpType;
    NEED(path);
    return FAIL(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "operands are not dumped: %s", path);
}
EXPORT aclError aclopStopDumpArgs(uint32_t dumpType)
{
    (void)dumpType;
    return ACL_SUCCESS;
}

/* ---- logs: to stderr, if CANN's variables ask for it ---- */

EXPORT void aclAppLog(aclLogLevel logLevel, const char *func, const char *file, uint32_t line,
                      const char *fmt, ...)
{
    static const char *const names[] = {"debug", "info", "warning", "error"};
    const char *print = getenv("ASCEND_SLOG_PRINT_TO_STDOUT"),
               *level = getenv("ASCEND_GLOBAL_LOG_LEVEL");
    char text[1024];
    va_list args;

    if (!print || strcmp(print, "1") || !fmt || (unsigned)logLevel > ACL_ERROR ||
        (int)logLevel < (level ? atoi(level) : ACL_ERROR))
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fprintf(stderr, "[%s] %s:%u %s: %s\n", names[logLevel], file ? file : "?", line,
            func ? func : "?", text);
}
