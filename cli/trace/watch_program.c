/* The client side of a program's socket. src/trace/watch/watch.h describes the protocol. */
#include "trace/watch.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { ANSWER_MS = 10000 };
#define MOST ((size_t)1 << 30) /* bytes of one answer */

static void leave(struct watched *w)
{
    if (w->socket >= 0)
        close(w->socket);
    w->socket = -1;
    w->ended = true;
}

static int connect_to(const char *folder, long pid)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int n = snprintf(address.sun_path, sizeof address.sun_path, "%s/%ld", folder, pid);
    int s = n > 0 && (size_t)n < sizeof address.sun_path
                ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)
                : -1;

    if (s >= 0 && connect(s, (const struct sockaddr *)&address, sizeof address)) {
        close(s);
        s = -1;
    }
    return s;
}

void watched_meet(struct watched *w)
{
    if (w->socket < 0 && !w->met && (w->socket = connect_to(w->folder, (long)w->pid)) >= 0)
        w->met = true;
}

/* Returns false at the end of the stream, after a timeout, or on an error. */
static bool receive(struct watched *w, char *to, size_t size)
{
    while (size) {
        struct pollfd p = {w->socket, POLLIN, 0};
        int ready = poll(&p, 1, ANSWER_MS);
        ssize_t n;

        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0 || (n = recv(w->socket, to, size, 0)) <= 0)
            return false;
        to += n;
        size -= (size_t)n;
    }
    return true;
}

static bool receive_line(struct watched *w, char *line, size_t size)
{
    for (size_t n = 0; n + 1 < size; n++) {
        if (!receive(w, line + n, 1))
            return false;
        if (line[n] == '\n') {
            line[n] = '\0';
            return true;
        }
    }
    return false;
}

void watched_hear(struct watched *w)
{
    char line[sizeof w->error], *end, *text;
    size_t size;

    if (w->socket < 0)
        return;
    if (!receive_line(w, line, sizeof line)) {
        leave(w);
        return;
    }
    if (!strncmp(line, "error ", 6)) {
        snprintf(w->error, sizeof w->error, "%s", line + 6);
        return;
    }
    size = strtoull(line, &end, 10);
    if (*end || end == line || size > MOST || !(text = malloc(size + 1))) {
        leave(w);
        return;
    }
    if (!receive(w, text, size)) {
        free(text);
        leave(w);
        return;
    }
    text[size] = '\0';
    free(w->text);
    w->text = text;
    w->size = size;
    w->version++;
    w->error[0] = '\0';
}

void watched_ask(struct watched *w)
{
    struct pollfd p = {w->socket, POLLIN, 0};

    if (w->socket < 0)
        return;
    /* Do not ask if the program has sent its last trace already. */
    if (poll(&p, 1, 0) <= 0 && send(w->socket, "trace\n", 6, MSG_NOSIGNAL) != 6) {
        leave(w);
        return;
    }
    watched_hear(w);
}

void watched_fini(struct watched *w)
{
    if (w->socket >= 0)
        close(w->socket);
    free(w->text);
}

int watched_list(const char *folder)
{
    DIR *d = opendir(folder);
    struct dirent *e;
    int n = 0;

    while (d && (e = readdir(d))) {
        char path[384], command[128] = "";
        char *end;
        long pid = strtol(e->d_name, &end, 10);
        FILE *f;
        int s;

        if (*end || end == e->d_name || pid <= 0)
            continue;
        if ((s = connect_to(folder, pid)) < 0) {
            /* The program may have been killed: then remove its socket. */
            snprintf(path, sizeof path, "%s/%.40s", folder, e->d_name);
            if (kill((pid_t)pid, 0) && errno == ESRCH)
                (void)unlink(path);
            continue;
        }
        close(s);
        snprintf(path, sizeof path, "/proc/%ld/cmdline", pid);
        if ((f = fopen(path, "r"))) {
            size_t size = fread(command, 1, sizeof command - 1, f);

            for (size_t i = 0; i + 1 < size; i++)
                command[i] = command[i] ? command[i] : ' ';
            fclose(f);
        }
        printf("%8ld  %s\n", pid, command);
        n++;
    }
    if (d)
        closedir(d);
    return n;
}
