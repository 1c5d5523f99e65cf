/* Makes standard input a file that can be read more than once. */
#include "commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool copy_all(int from, int to)
{
    char part[1 << 16];
    ssize_t n;

    while ((n = read(from, part, sizeof part)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        for (ssize_t done = 0, m; done < n; done += m)
            if ((m = write(to, part + done, (size_t)(n - done))) < 0)
                return false;
    }
    return true;
}

/* Commands load a file once for each rank and device, but a pipe can be read only once. So the
 * pipe's bytes are copied into a memory file, which replaces descriptor 0. */
int cli_keep_input(const char *command)
{
    struct stat about;
    int kept;

    if (!fstat(STDIN_FILENO, &about) && S_ISREG(about.st_mode))
        return -1;
    if ((kept = memfd_create("standard input", MFD_CLOEXEC)) < 0 || !copy_all(STDIN_FILENO, kept) ||
        dup2(kept, STDIN_FILENO) < 0) {
        fprintf(stderr, "weir %s: cannot read standard input: %s\n", command, strerror(errno));
        if (kept >= 0)
            close(kept);
        return EXIT_FAILED;
    }
    close(kept);
    return -1;
}
