/* Fibers: their stacks, and switching between them. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "emu.h"

#if defined(__x86_64__)
/* What the callee keeps goes onto the stack, which is exchanged for the other. */
void emu_switch(void **from, void *to);
__asm__(".text\n"
        ".hidden emu_switch\n"
        ".globl emu_switch\n"
        ".type emu_switch, @function\n"
        "emu_switch:\n"
        "    push %rbp\n"
        "    push %rbx\n"
        "    push %r12\n"
        "    push %r13\n"
        "    push %r14\n"
        "    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n"
        "    pop %r14\n"
        "    pop %r13\n"
        "    pop %r12\n"
        "    pop %rbx\n"
        "    pop %rbp\n"
        "    ret\n"
        ".size emu_switch, . - emu_switch\n");
#else
#include <ucontext.h>
#endif

struct emu_fiber {
#if defined(__x86_64__)
    void *top; /* of its stack while it does not run */
#else
    ucontext_t context;
#endif
    struct emu_fiber *next; /* that is free */
};

static char *stacks;
static struct emu_fiber fibers[EMU_FIBERS], *unused, scheduler;
static int nfibers;

bool emu_on_stack(uintptr_t address)
{
    return address - (uintptr_t)stacks < (uintptr_t)EMU_FIBERS * EMU_STACK;
}

static void leave_for(struct emu_fiber *from, struct emu_fiber *to)
{
#if defined(__x86_64__)
    emu_switch(&from->top, to->top);
#else
    swapcontext(&from->context, &to->context);
#endif
}

/* A thread that never waits leaves its stack to the next one. */
static void run_some(void)
{
    struct emu_fiber *self;

    for (;;) {
        while (emu.next < (int)emu.launch->threads) {
            struct emu_thread *t = &emu.threads[emu.next];

            self = &fibers[((char *)&self - stacks) / EMU_STACK];
            emu.current = emu.next++;
            emu.at.thread.x = (unsigned)emu.current;
            t->started = true;
            t->fiber = self;
            emu.module->kernel->run(emu.launch->params);
            emu_thread_over();
        }
        self = &fibers[((char *)&self - stacks) / EMU_STACK];
        self->next = unused;
        unused = self;
        leave_for(self, &scheduler);
    }
}

static struct emu_fiber *new_fiber(void)
{
    struct emu_fiber *f = &fibers[nfibers];
    char *stack = stacks + (size_t)nfibers * EMU_STACK;

    if (nfibers == EMU_FIBERS)
        abort(); /* clusters of so many threads are not used */

    nfibers++;
    (void)mprotect(stack, 4096, PROT_NONE); /* a stack that runs over is seen */
#if defined(__x86_64__)
    void **top = (void **)(void *)(stack + EMU_STACK - 64);

    *--top = NULL; /* as if called from nowhere */
    *(void (**)(void))(void *)--top = run_some;
    for (int i = 0; i < 6; i++)
        *--top = NULL;
    f->top = (void *)top;
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = stack + 4096;
    f->context.uc_stack.ss_size = EMU_STACK - 4096;
    f->context.uc_link = NULL;
    makecontext(&f->context, run_some, 0);
#endif
    return f;
}

void emu_wait(const uint32_t *word, uint32_t seen, const char *at)
{
    struct emu_thread *t = emu_self();
    int self = emu.current;

    if (*word != seen)
        return;
    t->word = word;
    t->seen = seen;
    t->waits_at = at;
    leave_for(t->fiber, &scheduler);
    t->word = NULL;
    emu.current = self;
    emu.at.thread.x = (unsigned)self;
}

static void begin_rest(void)
{
    while (emu.next < (int)emu.launch->threads) {
        struct emu_fiber *f = unused ? unused : new_fiber();

        if (f == unused)
            unused = f->next;
        leave_for(&scheduler, f);
    }
}

static void give_up(void)
{
    char who[200];
    size_t n = 0;

    for (int i = 0; i < (int)emu.launch->threads && n < sizeof who - 40; i++)
        if (!emu.threads[i].over)
            n +=
                (size_t)snprintf(who + n, sizeof who - n, " %d at %s,", i, emu.threads[i].waits_at);
    emu_fault("threads wait for others that never come:%s and so on", who);
    emu.alive = nfibers = 0; /* a test catches it: their stacks are left as they are */
    unused = NULL;
}

bool emu_run_threads(void)
{
    if (!stacks) {
        stacks = mmap(NULL, (size_t)EMU_FIBERS * EMU_STACK, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stacks == MAP_FAILED)
            abort();
    }
    begin_rest();
    while (emu.alive) {
        bool goes_on = false;

        for (int i = 0; i < (int)emu.launch->threads; i++) {
            struct emu_thread *t = &emu.threads[i];

            if (!t->over && *t->word != t->seen) {
                goes_on = true;
                leave_for(&scheduler, t->fiber);
            }
        }
        if (goes_on || emu_bring_tile())
            continue;
        if (emu.alive && emu.at_cluster == emu.alive)
            return true;
        give_up();
        return false;
    }
    return true;
}
