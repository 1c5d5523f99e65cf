#include "trace/watch/watch.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/thread.h"
#include "trace/record/trace.h"
#include "trace/write/out.h"

enum { LAST_WAIT_S = 2 }; /* how long a program that ends waits for its watcher to read */

static struct {
    pthread_t thread;
    pid_t owner; /* 0: not started. A forked child has no watch thread: it ignores the socket */
    int listener, wake;
    struct sockaddr_un address;
} watch;

/* ---- sending ---- */

static bool send_all(int to, const char *data, size_t size)
{
    while (size) {
        ssize_t n = send(to, data, size, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data += n;
        size -= (size_t)n;
    }
    return true;
}

static weir_status look(char **text, size_t *size)
{
    weir_trace *trace;
    weir_status st;
    FILE *out;

    st = weir__trace_watch_start(); /* again, if the program's own recording has ended */
    if (st && st != WEIR_ESTATE)
        return st;
    if ((st = weir_trace_snapshot(&trace)))
        return st;
    if (!(out = open_memstream(text, size))) {
        weir_trace_free(trace);
        return weir__fail_nomem("writing the text of a trace");
    }
    st = weir__trace_chrome(out, trace);
    weir_trace_free(trace);
    if (fclose(out) && !st)
        st = weir__fail_nomem("writing the text of a trace");
    return st;
}

static bool answer(int to)
{
    char *text = NULL, line[160];
    size_t size = 0;
    bool sent;
    int n;

    if (look(&text, &size)) {
        n = snprintf(line, sizeof line, "error %.120s\n", weir_last_error());
        sent = send_all(to, line, (size_t)n);
    } else {
        n = snprintf(line, sizeof line, "%zu\n", size);
        sent = send_all(to, line, (size_t)n) && send_all(to, text, size);
    }
    free(text);
    return sent;
}

/* ---- clients ---- */

static bool is_same_user(int client)
{
    struct ucred who;
    socklen_t size = sizeof who;

    return !getsockopt(client, SOL_SOCKET, SO_PEERCRED, &who, &size) &&
           (who.uid == geteuid() || who.uid == 0);
}

/* Serves one client until it disconnects. True if the program ends meanwhile. */
static bool serve(int client)
{
    struct timeval patience = {LAST_WAIT_S, 0};
    char asked[64];

    (void)setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    for (;;) {
        struct pollfd fds[] = {{client, POLLIN, 0}, {watch.wake, POLLIN, 0}};
        ssize_t n;

        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return false;
        if (fds[1].revents) {
            (void)answer(client);
            return true;
        }
        if (!fds[0].revents)
            continue;
        n = recv(client, asked, sizeof asked, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        for (ssize_t i = 0; i < n; i++)
            if (asked[i] == '\n' && !answer(client))
                return false;
    }
}

static void *run(void *arg)
{
    bool ended = false;

    (void)arg;
    while (!ended) {
        struct pollfd fds[] = {{watch.listener, POLLIN, 0}, {watch.wake, POLLIN, 0}};
        int client;

        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        if (fds[1].revents)
            break;
        if (!fds[0].revents || (client = accept4(watch.listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
            continue;
        if (is_same_user(client))
            ended = serve(client);
        close(client);
    }
    return NULL;
}

/* ---- start and end ---- */

/* Opens the socket. Only this user can reach it: the folder's mode keeps others out. */
static bool listen_in(const char *folder)
{
    int n = snprintf(watch.address.sun_path, sizeof watch.address.sun_path, "%s/%ld", folder,
                     (long)getpid());

    if (n < 0 || (size_t)n >= sizeof watch.address.sun_path) {
        weir__log(WEIR_LOG_WARN, "WEIR_WATCH: the path of a socket in %s is too long", folder);
        return false;
    }
    watch.address.sun_family = AF_UNIX;
    watch.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (watch.listener < 0)
        return false;
    (void)unlink(watch.address.sun_path); /* left by an earlier process with the same pid */
    if (!bind(watch.listener, (const struct sockaddr *)&watch.address, sizeof watch.address) &&
        !listen(watch.listener, 4))
        return true;
    weir__log(WEIR_LOG_WARN, "WEIR_WATCH: %s: %s", watch.address.sun_path, strerror(errno));
    close(watch.listener);
    return false;
}

static void begin(void)
{
    const char *wish = getenv("WEIR_WATCH");
    char folder[sizeof watch.address.sun_path];

    if (!wish || !*wish || !strcmp(wish, "0"))
        return;
    if (!weir__watch_folder(wish, folder, sizeof folder) || !weir__watch_folder_ready(folder) ||
        !listen_in(folder))
        return;
    if ((watch.wake = eventfd(0, EFD_CLOEXEC)) >= 0 &&
        weir__thread_start(&watch.thread, run, NULL)) {
        watch.owner = getpid();
        (void)weir__trace_watch_start(); /* fails if the program records already: that is fine */
        return;
    }
    weir__log(WEIR_LOG_WARN, "WEIR_WATCH: %s", strerror(errno));
    if (watch.wake >= 0)
        close(watch.wake);
    close(watch.listener);
    (void)unlink(watch.address.sun_path);
}

void weir__watch_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, begin);
}

/* Runs at exit and when the library is unloaded: no thread may run its code then. */
__attribute__((destructor)) static void end(void)
{
    uint64_t one = 1;

    if (!watch.owner || watch.owner != getpid())
        return;
    watch.owner = 0;
    if (write(watch.wake, &one, sizeof one) == sizeof one)
        pthread_join(watch.thread, NULL);
    (void)unlink(watch.address.sun_path);
    close(watch.listener);
    close(watch.wake);
}
