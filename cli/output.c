/* Output files that options name; "-" means standard output. */
#include "commands.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool cli_is_standard(const char *path)
{
    return path && !strcmp(path, "-");
}

int cli_output_open(const char *command, const char *wanted, struct cli_output *out)
{
    const char *folder = getenv("TMPDIR");

    *out = (struct cli_output){.path = wanted};
    if (!cli_is_standard(wanted))
        return -1;
    snprintf(out->folder, sizeof out->folder, "%s/weir-XXXXXX",
             folder && strlen(folder) < 200 ? folder : "/tmp");
    if (!mkdtemp(out->folder)) {
        fprintf(stderr, "weir %s: %s: %s\n", command, out->folder, strerror(errno));
        out->folder[0] = '\0';
        return EXIT_FAILED;
    }
    snprintf(out->file, sizeof out->file, "%s/out", out->folder);
    out->path = out->file;
    return -1;
}

/* Returns 0 or an errno. */
static int copy_to_standard(const char *path)
{
    int in = open(path, O_RDONLY | O_CLOEXEC), error = in < 0 ? errno : 0;
    char piece[1 << 16];
    ssize_t n = 0;

    while (!error && (n = read(in, piece, sizeof piece)) > 0)
        for (ssize_t at = 0, put; at < n && !error; at += put)
            if ((put = write(STDOUT_FILENO, piece + at, (size_t)(n - at))) < 0) {
                error = errno == EINTR ? 0 : errno;
                put = 0;
            }
    if (!error && n < 0)
        error = errno;
    if (in >= 0)
        close(in);
    return error;
}

int cli_output_close(const char *command, struct cli_output *out, int status)
{
    int error;

    if (!out->folder[0])
        return status;
    fflush(stdout);
    if (!status && (error = copy_to_standard(out->file))) {
        fprintf(stderr, "weir %s: standard output: %s\n", command, strerror(error));
        status = EXIT_FAILED;
    }
    (void)unlink(out->file);
    (void)rmdir(out->folder);
    out->folder[0] = '\0';
    return status;
}
