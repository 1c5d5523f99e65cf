/* The event stream: a lexer and a stack of open messages and arrays. */
#include "graph/file/pbtxt_read.h"

#include <stdio.h>
#include <string.h>

/* ---- messages ---- */

struct weir__pb_excerpt weir__pb_make_excerpt(const char *data, size_t size)
{
    struct weir__pb_excerpt out;
    size_t keep = size <= 40 ? size : 37;

    for (size_t i = 0; i < keep; i++)
        out.text[i] = data[i] >= ' ' && data[i] <= '~' ? data[i] : '?';
    strcpy(out.text + keep, size <= 40 ? "" : "...");
    return out;
}

void weir__pb_place(const struct weir__pb_text *text, size_t at, size_t *line, size_t *column)
{
    *line = *column = 1;
    if (weir__pb_source_need(text->source, 0, at))
        return; /* the file was truncated meanwhile */
    for (size_t i = 0; i < at && i < text->size; i++) {
        *column = text->data[i] == '\n' ? 1 : *column + 1;
        *line += text->data[i] == '\n';
    }
}

weir_status weir__pb_fail(const struct weir__pb_text *text, weir_status status, size_t at,
                          const char *format, ...)
{
    size_t line, column;
    char message[1024];
    va_list args;

    while (text->outer) {
        at = text->outer_at;
        text = text->outer;
    }
    if (!text->where || text->partial)
        return status;
    weir__pb_place(text, at, &line, &column);
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return weir__fail(status, "%s:%zu:%zu: %s", text->where, line, column, message);
}

/* ---- tokens ---- */

enum {
    TOKEN_END = 256,
    TOKEN_WORD,
    TOKEN_NUMBER,
    TOKEN_STRING
}; /* other tokens are their
    * character */

struct token {
    int kind;
    size_t at, size;
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t skip_space(const struct weir__pb_text *t, size_t at)
{
    for (; at < t->size; at++) {
        char c = t->data[at];

        if (c == '#') {
            const char *end = memchr(t->data + at, '\n', t->size - at);

            at = end ? (size_t)(end - t->data) : t->size - 1;
        } else if (c != ' ' && (c < '\t' || c > '\r')) {
            break;
        }
    }
    return at;
}

/* Finds the position behind the closing quote of the literal that begins at `at`. */
static weir_status skip_literal(const struct weir__pb_text *t, size_t at, size_t *end)
{
    char quote = t->data[at];

    for (size_t i = at + 1; i < t->size && t->data[i] != '\n'; i++) {
        if (t->data[i] == quote) {
            *end = i + 1;
            return WEIR_OK;
        }
        i += t->data[i] == '\\';
    }
    return weir__pb_fail(t, WEIR_EPARSE, at,
                         "the string that begins here does not end on its line");
}

static weir_status lex_string(const struct weir__pb_text *t, struct token *token)
{
    size_t end = token->at, next = token->at;
    weir_status st;

    do {
        if ((st = skip_literal(t, next, &end)))
            return st;
        next = skip_space(t, end);
    } while (next < t->size && (t->data[next] == '"' || t->data[next] == '\''));
    token->kind = TOKEN_STRING;
    token->size = end - token->at;
    return WEIR_OK;
}

static void lex_word(const struct weir__pb_text *t, struct token *token)
{
    size_t i = token->at + (t->data[token->at] == '-');

    token->kind = is_letter(t->data[token->at]) ? TOKEN_WORD : TOKEN_NUMBER;
    for (; i < t->size; i++) {
        char c = t->data[i], before = t->data[i - (i > token->at)];
        bool exponent = token->kind == TOKEN_NUMBER && (before == 'e' || before == 'E');

        if (!is_letter(c) && !is_digit(c) && c != '.' && !(exponent && (c == '+' || c == '-')))
            break;
    }
    token->size = i - token->at;
}

/* Reads the token at r->at and moves r->at behind it. */
static weir_status lex(struct weir__pb_reader *r, struct token *token)
{
    const struct weir__pb_text *t = r->text;
    weir_status st;
    char c;

    r->at = token->at = skip_space(t, r->at);
    token->size = 0;
    if (r->at >= t->size) {
        token->kind = TOKEN_END;
        return WEIR_OK;
    }
    c = t->data[r->at];
    if (c == '"' || c == '\'') {
        if ((st = lex_string(t, token)))
            return st;
    } else if (is_letter(c) || is_digit(c) || c == '-' || c == '.') {
        lex_word(t, token);
    } else if (c && strchr("{}<>[]:;,", c)) {
        token->kind = (unsigned char)c;
        token->size = 1;
    } else {
        return weir__pb_fail(t, WEIR_EPARSE, r->at, "unexpected byte '%s' (0x%02x)",
                             weir__pb_make_excerpt(&c, 1).text, (unsigned char)c);
    }
    r->at = token->at + token->size;
    return WEIR_OK;
}

static weir_status unexpected(const struct weir__pb_reader *r, const struct token *token,
                              const char *wanted)
{
    if (token->kind == TOKEN_END)
        return weir__pb_fail(r->text, WEIR_EPARSE, token->at,
                             "expected %s, found the end of the text", wanted);
    return weir__pb_fail(r->text, WEIR_EPARSE, token->at, "expected %s, found '%s'", wanted,
                         weir__pb_make_excerpt(r->text->data + token->at, token->size).text);
}

/* ---- events ---- */

void weir__pb_reader_init(struct weir__pb_reader *r, const struct weir__pb_text *text)
{
    r->text = text;
    r->at = 0;
    r->depth = 0;
}

static weir_status push(struct weir__pb_reader *r, char closer, const struct weir__pb_event *e)
{
    if (r->depth == WEIR__PB_MAX_DEPTH)
        return weir__pb_fail(r->text, WEIR_EPARSE, e->at, "messages are nested more than %d deep",
                             WEIR__PB_MAX_DEPTH);
    r->levels[r->depth++] = (struct weir__pb_level){
        .closer = closer, .name = e->name, .name_size = e->name_size, .at = e->at};
    return WEIR_OK;
}

static void skip_separator(struct weir__pb_reader *r)
{
    r->at = skip_space(r->text, r->at);
    if (r->at < r->text->size && (r->text->data[r->at] == ';' || r->text->data[r->at] == ','))
        r->at++;
}

/* Reads the value that begins with `token`. *open: it was the start of an array, which is no event
 * of its own. */
static weir_status read_value(struct weir__pb_reader *r, const struct token *token, bool in_array,
                              struct weir__pb_event *e, bool *open)
{
    *open = false;
    e->at = token->at;
    e->raw = r->text->data + token->at;
    e->raw_size = token->size;
    switch (token->kind) {
    case '{':
    case '<':
        e->kind = WEIR__PB_OPEN;
        return push(r, token->kind == '{' ? '}' : '>', e);
    case '[':
        if (in_array)
            break;
        *open = true;
        return push(r, ']', e);
    case TOKEN_WORD:
    case TOKEN_NUMBER:
    case TOKEN_STRING:
        e->kind = token->kind == TOKEN_WORD     ? WEIR__PB_WORD
                  : token->kind == TOKEN_NUMBER ? WEIR__PB_NUMBER
                                                : WEIR__PB_STRING;
        if (!in_array)
            skip_separator(r);
        return WEIR_OK;
    default:
        break;
    }
    return unexpected(r, token, "a value");
}

/* Reads the next entry of the innermost array, or its end (*open). */
static weir_status read_entry(struct weir__pb_reader *r, struct weir__pb_event *e, bool *open)
{
    struct weir__pb_level *level = &r->levels[r->depth - 1];
    struct token token;
    weir_status st;

    if ((st = lex(r, &token)))
        return st;
    if (token.kind == ']') {
        r->depth--;
        skip_separator(r);
        *open = true;
        return WEIR_OK;
    }
    if (level->started) {
        if (token.kind != ',')
            return unexpected(r, &token, "',' or ']'");
        if ((st = lex(r, &token)))
            return st;
    }
    level->started = true;
    e->name = level->name;
    e->name_size = level->name_size;
    return read_value(r, &token, true, e, open);
}

/* Reads the name of an extension, in brackets. */
static weir_status read_bracketed(struct weir__pb_reader *r, struct token *name)
{
    const char *begin = r->text->data + name->at,
               *end = memchr(begin, ']', r->text->size - name->at);

    if (!end)
        return weir__pb_fail(r->text, WEIR_EPARSE, name->at, "the '[' here is never closed");
    name->size = (size_t)(end - begin) + 1;
    r->at = name->at + name->size;
    return WEIR_OK;
}

static weir_status read_close(struct weir__pb_reader *r, const struct token *token,
                              struct weir__pb_event *e)
{
    if (!r->depth || r->levels[r->depth - 1].closer != token->kind)
        return weir__pb_fail(r->text, WEIR_EPARSE, token->at,
                             "'%c' has no matching opening bracket", token->kind);
    r->depth--;
    e->kind = WEIR__PB_CLOSE;
    e->at = token->at;
    if (!r->depth || r->levels[r->depth - 1].closer != ']')
        skip_separator(r);
    return WEIR_OK;
}

static weir_status read_field(struct weir__pb_reader *r, struct weir__pb_event *e, bool *open)
{
    struct token name, token;
    weir_status st;

    *open = false;
    if ((st = lex(r, &name)))
        return st;
    if (name.kind == '}' || name.kind == '>')
        return read_close(r, &name, e);
    if (name.kind == TOKEN_END && !r->depth) {
        e->kind = WEIR__PB_END;
        e->at = name.at;
        return WEIR_OK;
    }
    if (name.kind == TOKEN_END)
        return weir__pb_fail(r->text, WEIR_EPARSE, r->levels[r->depth - 1].at,
                             "the bracket opened here is never closed");
    if (name.kind == '[') {
        if ((st = read_bracketed(r, &name)))
            return st;
    } else if (name.kind != TOKEN_WORD) {
        return unexpected(r, &name, "a field name");
    }
    e->name = r->text->data + name.at;
    e->name_size = name.size;
    if ((st = lex(r, &token)))
        return st;
    if (token.kind == ':') {
        if ((st = lex(r, &token)))
            return st;
    } else if (token.kind != '{' && token.kind != '<') {
        return unexpected(r, &token, "':' or '{'");
    }
    return read_value(r, &token, false, e, open);
}

weir_status weir__pb_next(struct weir__pb_reader *r, struct weir__pb_event *e)
{
    bool again = true;
    weir_status st = WEIR_OK;

    while (again && !st)
        st = r->depth && r->levels[r->depth - 1].closer == ']' ? read_entry(r, e, &again)
                                                               : read_field(r, e, &again);
    return st;
}

weir_status weir__pb_skip(struct weir__pb_reader *r, size_t *end)
{
    int depth = r->depth - 1;
    struct weir__pb_event e;
    weir_status st;

    do {
        if ((st = weir__pb_next(r, &e)))
            return st;
    } while (e.kind != WEIR__PB_CLOSE || r->depth > depth);
    if (end)
        *end = e.at;
    return WEIR_OK;
}

bool weir__pb_is_named(const struct weir__pb_event *e, const char *name)
{
    return strlen(name) == e->name_size && !memcmp(e->name, name, e->name_size);
}
