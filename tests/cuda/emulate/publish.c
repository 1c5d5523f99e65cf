/* What blocks of a launch tell each other: a thread whose block has met at a barrier fences and
 * then changes a word atomically; a thread of another block that changes the word later and then
 * fences knows what the first block wrote before its barrier, and so do the others of its block
 * behind the next one. */
#include <stdlib.h>
#include <string.h>

#include "emu.h"

struct range {
    uint32_t from, to; /* epochs of one block */
};

/* Words of the launch that runs. */
static struct word {
    uintptr_t address;
    struct range *told;
    int n, cap;
} * words;
static int nwords, cap_words;
static uint32_t launch;

/* What the block that runs knows: the first `n` ranges of the word. */
static struct {
    uint32_t block, epoch;
    int word, n, thread;
} known;

static int find_word(uintptr_t address)
{
    int i = 0;

    if (launch != emu.launch_epoch)
        nwords = 0;
    launch = emu.launch_epoch;
    while (i < nwords && words[i].address != address)
        i++;
    if (i < nwords)
        return i;
    if (nwords == cap_words) {
        cap_words = 2 * cap_words + 16;
        if (!(words = realloc(words, sizeof *words * (size_t)cap_words)))
            abort();
        memset(words + nwords, 0, sizeof *words * (size_t)(cap_words - nwords));
    }
    words[i].address = address;
    words[i].n = 0;
    return nwords++;
}

void emu_fence(void)
{
    struct emu_thread *t = emu_self();

    if (t->changed_in == emu.block_epoch) {
        known.block = emu.block_epoch;
        known.epoch = emu.epoch;
        known.thread = emu.current;
        known.word = t->changed;
        known.n = t->heard;
    }
    t->fenced_in = emu.block_epoch;
    t->fenced = emu.epoch;
}

/* Threads that do not fence before it tell nothing and hear nothing: most atomic changes are of
 * sums. */
void emu_change_word(uintptr_t address)
{
    struct emu_thread *t = emu_self();
    struct word *w;

    if (t->fenced_in != emu.block_epoch)
        return;
    t->changed_in = emu.block_epoch;
    t->changed = find_word(address);
    w = &words[t->changed];
    t->heard = w->n;
    if (w->n == w->cap &&
        !(w->told = realloc(w->told, sizeof *w->told * (size_t)(w->cap = 2 * w->cap + 16))))
        abort();
    w->told[w->n++] = (struct range){emu.block_epoch, t->fenced - 1};
}

bool emu_is_told(uint32_t epoch)
{
    const struct word *w;

    if (known.block != emu.block_epoch || (known.epoch == emu.epoch && known.thread != emu.current))
        return false;
    w = &words[known.word];
    for (int i = 0; i < known.n; i++)
        if (w->told[i].from <= epoch && epoch <= w->told[i].to)
            return true;
    return false;
}
