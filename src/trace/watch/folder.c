#include "trace/watch/watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

bool weir__watch_folder(const char *wish, char *out, size_t size)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    int n;

    if (wish && *wish && strcmp(wish, "1"))
        n = snprintf(out, size, "%s", wish);
    else if (runtime && *runtime == '/')
        n = snprintf(out, size, "%s/weir-watch", runtime);
    else
        n = snprintf(out, size, "/tmp/weir-watch-%ld", (long)geteuid());
    return n > 0 && (size_t)n < size;
}

bool weir__watch_folder_ready(const char *folder)
{
    struct stat about;

    if (mkdir(folder, 0700) && errno != EEXIST) {
        weir__log(WEIR_LOG_WARN, "WEIR_WATCH: cannot make %s: %s", folder, strerror(errno));
        return false;
    }
    if (lstat(folder, &about) || !S_ISDIR(about.st_mode) || about.st_uid != geteuid() ||
        about.st_mode & 077) {
        weir__log(WEIR_LOG_WARN, "WEIR_WATCH: %s must be a folder that only user %ld can enter",
                  folder, (long)geteuid());
        return false;
    }
    return true;
}
