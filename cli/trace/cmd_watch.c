/* `weir trace watch`: shows the timeline of a running program in the browser while it grows. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "commands.h"
#include "complete.h"
#include "trace/report.h"
#include "trace/watch.h"
#include "trace/watch/watch.h"

enum { TICK_MS = 100 };

struct watching {
    struct watched program;
    struct watch_server server;
    pid_t child;   /* started by this command; 0 for none */
    int exit_code; /* of the child, -1 while it runs */
    char *page;
    size_t size;
    unsigned shown; /* version of the trace on the page */
    bool announced;
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
    (void)sig;
    interrupted = 1;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- the page ---- */

static const char live[] = "<meta name=\"weir-live\" content=\"\">";

/* Makes the page of a trace, with a mark that makes the page reload its data. */
static bool write_page(struct watching *w, const char *path, const weir_trace *trace,
                       const char *title)
{
    char *page, *head, *marked;
    size_t size, before;

    if (weir_trace_write_html(&trace, &title, 1, path) ||
        weir__file_read(path, (size_t)1 << 30, "page", &page, &size))
        return false;
    head = memmem(page, size, "</head>", 7);
    if (!head || !(marked = malloc(size + sizeof live))) {
        weir__free(page);
        return false;
    }
    before = (size_t)(head - page);
    memcpy(marked, page, before);
    memcpy(marked + before, live, sizeof live - 1);
    memcpy(marked + before + sizeof live - 1, head, size - before);
    weir__free(page);
    free(w->page);
    w->page = marked;
    w->size = size + sizeof live - 1;
    return true;
}

/* Makes the page of the last received trace, or of an empty one. */
static bool make_page(struct watching *w)
{
    static const weir_trace_data none;
    struct cli_output file;
    weir_trace *trace;
    char title[64];
    bool made;

    if (w->page && w->shown == w->program.version)
        return true;
    if (cli_output_open("trace watch", "-", &file) >= 0)
        return false;
    snprintf(title, sizeof title, "process %ld", (long)w->program.pid);
    if (w->program.text ? weir_trace_parse(w->program.text, w->program.size, title, &trace)
                        : weir_trace_make(&none, &trace))
        trace = NULL;
    made = trace && write_page(w, file.path, trace, title);
    weir_trace_free(trace);
    /* The page is needed as a file: a failed status discards it instead of printing it. */
    (void)cli_output_close("trace watch", &file, EXIT_FAILED);
    if (made)
        w->shown = w->program.version;
    else
        fprintf(stderr, "weir trace watch: %s\n", weir_last_error());
    return made;
}

static const char *state_of(const struct watching *w)
{
    return w->program.ended || w->exit_code >= 0 ? "ended" : w->program.met ? "running" : "waiting";
}

/* ---- the loop ---- */

static void serve(struct watching *w, struct watch_client *c)
{
    if (!watch_server_read(&w->server, c))
        return;
    watched_ask(&w->program);
    if (make_page(w))
        watch_server_answer(c, w->page, w->size, w->program.version, state_of(w));
    else
        watch_server_refuse(c, "500 Internal Server Error");
}

/* Waits for the browser, the program and the clock. */
static void wait_and_serve(struct watching *w)
{
    struct pollfd fds[2 + WATCH_CLIENTS] = {{w->server.listener, POLLIN, 0},
                                            {w->program.socket, POLLIN, 0}};

    for (int i = 0; i < WATCH_CLIENTS; i++)
        fds[2 + i] = (struct pollfd){w->server.clients[i].socket, POLLIN, 0};
    if (poll(fds, 2 + WATCH_CLIENTS, TICK_MS) < 0)
        return;
    if (fds[1].revents)
        watched_hear(&w->program);
    for (int i = 0; i < WATCH_CLIENTS; i++)
        if (fds[2 + i].revents)
            serve(w, &w->server.clients[i]);
    if (fds[0].revents)
        watch_server_accept(&w->server, now());
    watch_server_expire(&w->server, now());
}

static void look_after_child(struct watching *w)
{
    int status;

    if (!w->child || w->exit_code >= 0 || waitpid(w->child, &status, WNOHANG) != w->child)
        return;
    w->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool is_over(struct watching *w, bool quit)
{
    /* A child that has ended may still have its last trace in the socket. */
    bool over = w->program.ended || (w->exit_code >= 0 && w->program.socket < 0);

    if (over && !w->announced && !quit) {
        fprintf(stderr, w->program.met
                            ? "weir trace watch: the program has ended; Ctrl-C ends the watch\n"
                            : "weir trace watch: the program has ended and opened no device of "
                              "weir; Ctrl-C ends the watch\n");
        w->announced = true;
    }
    return interrupted || (over && quit);
}

static int write_last(struct watching *w, const char *path)
{
    struct cli_output file;
    weir_trace *trace;
    weir_status st;
    int status;

    if (!w->program.text) {
        fprintf(stderr, "weir trace watch: %s was not written: there is no trace\n", path);
        return EXIT_FAILED;
    }
    if ((st = weir_trace_parse(w->program.text, w->program.size, "the program", &trace)))
        return cli_complain("trace watch", st);
    if ((status = cli_output_open("trace watch", path, &file)) < 0) {
        st = weir_trace_write_html((const weir_trace *[]){trace}, NULL, 1, file.path);
        status = cli_output_close("trace watch", &file,
                                  st ? cli_complain("trace watch", st) : EXIT_FINE);
    }
    weir_trace_free(trace);
    return status;
}

/* ---- the command ---- */

static int start_child(struct watching *w, char **argv)
{
    if (setenv("WEIR_WATCH", w->program.folder, 1) || (w->child = fork()) < 0) {
        fprintf(stderr, "weir trace watch: %s\n", strerror(errno));
        return EXIT_FAILED;
    }
    if (!w->child) {
        execvp(argv[0], argv);
        fprintf(stderr, "weir trace watch: %s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    w->program.pid = w->child;
    return -1;
}

static int watch(struct watching *w, bool quit, const char *html)
{
    struct sigaction stop = {.sa_handler = on_interrupt};
    int status;

    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    printf("http://127.0.0.1:%d/%s/\n", w->server.port, w->server.token);
    fflush(stdout);
    while (!is_over(w, quit)) {
        look_after_child(w);
        watched_meet(&w->program);
        wait_and_serve(w);
    }
    if (!w->program.ended)
        watched_ask(&w->program);
    status = html ? write_last(w, html) : EXIT_FINE;
    if (w->child && w->exit_code < 0) {
        kill(w->child, SIGINT); /* as Ctrl-C in a terminal does */
        (void)waitpid(w->child, NULL, 0);
    }
    return status ? status : w->exit_code > 0 ? EXIT_FAILED : EXIT_FINE;
}

static int no_program(const char *folder)
{
    printf("programs that can be watched:\n");
    if (!watched_list(folder))
        printf("  none; start one with WEIR_WATCH=1, or: weir trace watch -- COMMAND\n");
    return EXIT_USAGE;
}

/* Splits off the command after "--". */
static char **split_command(int *argc, char **argv)
{
    for (int i = 1; i < *argc; i++)
        if (!strcmp(argv[i], "--")) {
            *argc = i;
            argv[i] = NULL;
            return argv + i + 1;
        }
    return NULL;
}

int trace_watch_command(int argc, char **argv)
{
    const char *port = NULL, *html = NULL;
    bool quit = false;
    const struct cli_option options[] = {
        {"--port", "N", "on 127.0.0.1 (default: any that is free)", NULL, &port},
        {"--html", "FILE", "write the last page to a file; - is standard output", NULL, &html},
        {"--quit", NULL, "end with the program, not with Ctrl-C", &quit, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    const struct cli_usage usage = {
        .command = "trace watch",
        .synopsis = "PID | -- COMMAND... [--port N] [--html FILE] [--quit]",
        .about =
            "Shows the timeline of a running program in the browser while it grows. The program\n"
            "needs no change: it was started with WEIR_WATCH=1, or is started by this command.\n"
            "The page is reachable only from this machine, at an address with a secret token.\n"
            "Without a PID, lists the programs that can be watched. Shows the newest operators.",
        .options = options,
        .examples = "  weir trace watch -- python train.py\n"
                    "  WEIR_WATCH=1 ./program & weir trace watch $!\n",
        .max_words = 1,
        .words = NULL,
    };
    struct watching w = {.program = {.socket = -1}, .exit_code = -1};
    char **command = cli_completing ? NULL : split_command(&argc, argv), *end = NULL;
    int nwords, status = cli_parse(&usage, argc, argv, &nwords);
    long number = 0, pid = 0;

    if (status >= 0)
        return status;
    if (!weir__watch_folder(getenv("WEIR_WATCH"), w.program.folder, sizeof w.program.folder)) {
        fprintf(stderr, "weir trace watch: the folder that WEIR_WATCH names is too long\n");
        return EXIT_USAGE;
    }
    if (port && ((number = strtol(port, &end, 10)) < 0 || *end || number > 65535)) {
        fprintf(stderr, "weir trace watch: --port takes 0..65535, not '%s'\n", port);
        return EXIT_USAGE;
    }
    if (nwords && ((pid = strtol(argv[1], &end, 10)) <= 0 || *end)) {
        fprintf(stderr, "weir trace watch: '%s' is not the number of a process\n", argv[1]);
        return EXIT_USAGE;
    }
    if (!nwords && !(command && *command))
        return no_program(w.program.folder);
    w.program.pid = (pid_t)pid;
    watched_meet(&w.program);
    if (nwords && !w.program.met) {
        fprintf(stderr,
                "weir trace watch: process %ld cannot be watched: it was not started with "
                "WEIR_WATCH=1, or has opened no device yet\n",
                pid);
        watched_fini(&w.program);
        return EXIT_FAILED;
    }
    if (!watch_server_open(&w.server, (int)number)) {
        fprintf(stderr, "weir trace watch: 127.0.0.1:%ld: %s\n", number, strerror(errno));
        watched_fini(&w.program);
        return EXIT_FAILED;
    }
    if (nwords || (status = start_child(&w, command)) < 0)
        status = watch(&w, quit, html);
    watch_server_close(&w.server);
    watched_fini(&w.program);
    free(w.page);
    return status;
}
