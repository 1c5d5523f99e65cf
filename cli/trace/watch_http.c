/* A minimal HTTP server for one page. It listens on 127.0.0.1 and answers only requests whose path
 * is the token and whose Host header names this machine. The check of Host prevents DNS rebinding:
 * a page from another site whose name resolves to 127.0.0.1 cannot read anything. */
#include "trace/watch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { IDLE_S = 10 };

static bool make_token(char token[33])
{
    unsigned char bytes[16];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

bool watch_server_open(struct watch_server *s, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t size = sizeof address;
    int one = 1;

    for (int i = 0; i < WATCH_CLIENTS; i++)
        s->clients[i].socket = -1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!make_token(s->token) ||
        (s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0)
        return false;
    (void)setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(s->listener, (const struct sockaddr *)&address, sizeof address) ||
        listen(s->listener, WATCH_CLIENTS) ||
        getsockname(s->listener, (struct sockaddr *)&address, &size)) {
        int error = errno;

        close(s->listener);
        errno = error;
        return false;
    }
    s->port = ntohs(address.sin_port);
    return true;
}

static void drop(struct watch_client *c)
{
    close(c->socket);
    c->socket = -1;
}

void watch_server_close(struct watch_server *s)
{
    for (int i = 0; i < WATCH_CLIENTS; i++)
        if (s->clients[i].socket >= 0)
            drop(&s->clients[i]);
    close(s->listener);
}

void watch_server_accept(struct watch_server *s, double now)
{
    struct timeval patience = {5, 0};
    int client = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);

    if (client < 0)
        return;
    (void)setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    for (int i = 0; i < WATCH_CLIENTS; i++)
        if (s->clients[i].socket < 0) {
            s->clients[i] = (struct watch_client){.socket = client, .since = now};
            return;
        }
    close(client);
}

void watch_server_expire(struct watch_server *s, double now)
{
    for (int i = 0; i < WATCH_CLIENTS; i++)
        if (s->clients[i].socket >= 0 && now - s->clients[i].since > IDLE_S)
            drop(&s->clients[i]);
}

static void send_all(int to, const char *data, size_t size)
{
    while (size) {
        ssize_t n = send(to, data, size, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        data += n;
        size -= (size_t)n;
    }
}

void watch_server_refuse(struct watch_client *c, const char *status)
{
    char text[256];
    int n = snprintf(text, sizeof text,
                     "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
                     "Connection: close\r\n\r\n%s\n",
                     status, strlen(status) + 1, status);

    send_all(c->socket, text, (size_t)n);
    drop(c);
}

/* Compares in constant time, so that the time does not reveal the token. */
static bool same(const char *a, const char *b, size_t size)
{
    unsigned char differs = 0;

    for (size_t i = 0; i < size; i++)
        differs |= (unsigned char)(a[i] ^ b[i]);
    return !differs;
}

/* Returns the value of a header, up to the end of its line; NULL if the header is missing or occurs
 * more than once. */
static const char *header(const char *request, const char *name)
{
    const char *found = NULL;
    size_t size = strlen(name);

    for (const char *line = strstr(request, "\r\n"); line; line = strstr(line + 2, "\r\n"))
        if (!strncasecmp(line + 2, name, size) && line[2 + size] == ':') {
            if (found)
                return NULL;
            found = line + 3 + size;
            found += strspn(found, " \t");
        }
    return found;
}

static bool is_for_us(const struct watch_server *s, const char *request)
{
    const char *host = header(request, "Host");
    char expected[2][32];

    snprintf(expected[0], sizeof expected[0], "127.0.0.1:%d\r\n", s->port);
    snprintf(expected[1], sizeof expected[1], "localhost:%d\r\n", s->port);
    return host && (!strncasecmp(host, expected[0], strlen(expected[0])) ||
                    !strncasecmp(host, expected[1], strlen(expected[1])));
}

bool watch_server_read(struct watch_server *s, struct watch_client *c)
{
    size_t room = sizeof c->request - 1 - c->size, token = strlen(s->token);
    ssize_t n = recv(c->socket, c->request + c->size, room, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        drop(c);
        return false;
    }
    c->size += (size_t)n;
    c->request[c->size] = '\0';
    if (!strstr(c->request, "\r\n\r\n")) {
        if (c->size == sizeof c->request - 1)
            watch_server_refuse(c, "431 Request Header Fields Too Large");
        return false;
    }
    if (!is_for_us(s, c->request))
        watch_server_refuse(c, "403 Forbidden");
    else if (strncmp(c->request, "GET /", 5))
        watch_server_refuse(c, "405 Method Not Allowed");
    else if (c->size < 5 + token + 1 || !same(c->request + 5, s->token, token) ||
             strncmp(c->request + 5 + token, "/ ", 2))
        watch_server_refuse(c, "404 Not Found");
    else
        return true;
    return false;
}

void watch_server_answer(struct watch_client *c, const char *page, size_t size, unsigned version,
                         const char *state)
{
    char head[768];
    int n = snprintf(head, sizeof head,
                     "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
                     "Content-Length: %zu\r\nConnection: close\r\nCache-Control: no-store\r\n"
                     "Referrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n"
                     "X-Frame-Options: DENY\r\nCross-Origin-Resource-Policy: same-origin\r\n"
                     "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; "
                     "style-src 'unsafe-inline'; img-src data:; connect-src 'self'\r\n"
                     "X-Weir-Version: %u\r\nX-Weir-State: %s\r\n\r\n",
                     size, version, state);

    send_all(c->socket, head, (size_t)n);
    send_all(c->socket, page, size);
    drop(c);
}
