/* Which kernels are selected on which machine: of the processor, what the system saves, whether it
 * permits tiles, and WEIR_ISA. */
#include "ops/host/isa_of.h"

#include "harness/test.h"

#include <stdlib.h>

enum {
    SSE = 1 << 1,
    AVX = 1 << 2,
    AVX512 = 1 << 5 | 1 << 6 | 1 << 7,
    TILES = 1 << 17 | 1 << 18,
    V3_C1 = 1 << 12 | 1 << 22 | 1 << 27 | 1 << 29,
    V3_B7 = 1 << 3 | 1 << 5 | 1 << 8,
    BF16_A71 = 1 << 5,
    VNNI_C7 = 1 << 11,
    AMX_D7 = 1 << 22 | 1 << 24,
};
#define V4_B7 (1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31)

/* The machine that the functions below describe. */
static struct machine {
    unsigned leaf_1_c, leaf_7_b, leaf_7_c, leaf_7_d, leaf_71_a, saves;
    bool permits;
} now;
static int asked; /* for the permission */

static bool fake_cpuid(unsigned leaf, unsigned sub, unsigned out[4])
{
    memset(out, 0, 4 * sizeof *out);
    if (leaf == 1) {
        out[WEIR__X86_C] = now.leaf_1_c;
    } else if (leaf == 0x80000001) {
        out[WEIR__X86_C] = 1 << 5;
    } else if (leaf == 7 && !sub) {
        out[WEIR__X86_B] = now.leaf_7_b;
        out[WEIR__X86_C] = now.leaf_7_c;
        out[WEIR__X86_D] = now.leaf_7_d;
    } else if (leaf == 7 && sub == 1) {
        out[WEIR__X86_A] = now.leaf_71_a;
    } else {
        return false;
    }
    return true;
}

static unsigned fake_saved(void)
{
    return now.saves;
}

static bool fake_grants(void)
{
    asked++;
    return now.permits;
}

static const struct weir__x86 fake = {fake_cpuid, fake_saved, fake_grants};

/* A server with AMX, whose system permits it. */
static struct machine server(void)
{
    return (struct machine){
        .leaf_1_c = V3_C1,
        .leaf_7_b = V3_B7 | V4_B7,
        .leaf_7_c = VNNI_C7,
        .leaf_7_d = AMX_D7,
        .leaf_71_a = BF16_A71,
        .saves = SSE | AVX | AVX512 | TILES,
        .permits = true,
    };
}

static void check(const char *wish, int level, enum weir__isa_pairs pairs, bool bytes, int asks)
{
    asked = 0;
    CHECK_EQ(weir__isa_of(&fake, wish), level);
    CHECK_EQ(weir__isa_pairs_of(&fake, wish), pairs);
    CHECK_EQ(weir__isa_bytes_of(&fake, wish), bytes);
    CHECK_EQ(asked, asks);
}

TEST(isa, tiles_are_used_where_the_system_permits_them)
{
    now = server();
    check(NULL, WEIR__ISA_V4, WEIR__ISA_AMX, true, 1);
}

TEST(isa, without_the_permission_products_of_bf16_fall_back_to_avx512)
{
    now = server();
    now.permits = false;
    check(NULL, WEIR__ISA_V4, WEIR__ISA_BF16, true, 1);
    now.leaf_71_a = 0;
    check(NULL, WEIR__ISA_V4, WEIR__ISA_NO_PAIRS, true, 0);
}

TEST(isa, the_permission_is_not_requested_where_tiles_are_of_no_use)
{
    now = server();
    now.saves &= ~(unsigned)TILES;
    check(NULL, WEIR__ISA_V4, WEIR__ISA_BF16, true, 0);
    now = server();
    now.leaf_7_d = 1 << 24; /* tiles, but not of bf16 */
    check(NULL, WEIR__ISA_V4, WEIR__ISA_BF16, true, 0);
}

TEST(isa, the_environment_lowers_the_level_and_never_raises_it)
{
    now = server();
    check("bf16", WEIR__ISA_V4, WEIR__ISA_BF16, true, 0);
    check("v4", WEIR__ISA_V4, WEIR__ISA_NO_PAIRS, false, 0);
    check("v3", WEIR__ISA_V3, WEIR__ISA_NO_PAIRS, false, 0);
    check("v2", WEIR__ISA_V1, WEIR__ISA_NO_PAIRS, false, 0);
    check("v1", WEIR__ISA_V1, WEIR__ISA_NO_PAIRS, false, 0);
    check("v5", WEIR__ISA_V4, WEIR__ISA_AMX, true, 1);
    check("", WEIR__ISA_V4, WEIR__ISA_AMX, true, 1);
    now.leaf_7_b = V3_B7;
    check("v4", WEIR__ISA_V3, WEIR__ISA_NO_PAIRS, false, 0);
    check("bf16", WEIR__ISA_V3, WEIR__ISA_NO_PAIRS, false, 0);
}

TEST(isa, registers_that_the_system_does_not_save_are_not_used)
{
    now = server();
    now.saves = SSE | AVX;
    check(NULL, WEIR__ISA_V3, WEIR__ISA_NO_PAIRS, false, 0);
    now.saves = SSE;
    check(NULL, WEIR__ISA_V1, WEIR__ISA_NO_PAIRS, false, 0);
    now = server();
    now.leaf_1_c = 0; /* no OSXSAVE: what is saved must not even be read */
    check(NULL, WEIR__ISA_V1, WEIR__ISA_NO_PAIRS, false, 0);
}

/* The kernels run on this machine at the level that the table says. */
TEST(isa, this_machine_is_asked_the_same_questions)
{
    const char *wish = getenv("WEIR_ISA");

    CHECK_EQ(weir__isa(), weir__isa_of(&weir__x86_here, wish));
    CHECK_EQ(weir__isa_best_pairs(), weir__isa_pairs_of(&weir__x86_here, wish));
}
