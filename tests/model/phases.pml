/* An operator in blocks and phases, and workers that stay for the next phase: a model for SPIN of
 * weir__worker_run_shared in src/cpu/parts.c.
 *
 * One worker opens the operator, two others join while it wants help. A worker may leave after a
 * block although some are left, may lose patience while it stays, and one block may fail. What must
 * hold: each block runs once, none before the phase before is over, the operator ends once, with
 * nobody in it, and always ends.
 *
 * Each MUTANT must fail (how a fence is taken out: token.pml):
 *   1  who has lost patience does not look whether the next phase has begun
 *   2  the next phase begins without counting those who stay
 *   3  an operator that has failed ends although workers stay
 *   4  workers stay for a phase behind the last one
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#define BLOCKS 2
#define PHASES 2
#define CORES 3

bool locked, wanted = true, failed, over, left_early;
byte next, running = 1, staying, turns, phase, inside = 1;
byte done[PHASES];

inline lock() { atomic { !locked; locked = true } }
inline unlock() { locked = false }

proctype worker(bool in)
{
    byte i, turn;
    bool left, stayed;

    if
    :: in -> goto blocks
    :: else -> skip
    fi;
join:
    if
    :: over -> goto end
    :: atomic { !locked && wanted -> locked = true }
    fi;
    running++;
    inside++;
    if
    :: running == CORES -> wanted = false
    :: else -> skip
    fi;
    unlock();
blocks:
    assert(!over);
    atomic { i = next; next++ };
    if
    :: i >= BLOCKS -> goto none
    :: else -> skip
    fi;
    if
    :: failed -> skip
    :: !failed ->
        assert(phase == 0 || done[0] == BLOCKS || failed);
        assert(done[phase] < BLOCKS);
        done[phase]++
    :: !failed -> failed = true
    fi;
    if
    :: !left_early -> left_early = true; goto none
    :: goto blocks
    fi;
none:
    lock();
    assert(!over);
    left = next < BLOCKS;
    if
    :: !left -> wanted = false
    :: else -> skip
    fi;
    if
#if MUTANT == 4
    :: !left && running - staying > 1 ->
#else
    :: !left && running - staying > 1 && phase + 1 < PHASES ->
#endif
        turn = turns;
        staying++;
        unlock();
        if
        :: turns != turn -> goto blocks
        :: lock();
            assert(!over);
#if MUTANT == 1
            staying--
#else
            if
            :: turns == turn -> staying--
            :: else -> unlock(); goto blocks
            fi
#endif
        fi
    :: else -> skip
    fi;
    running--;
    inside--;
    if
    :: left || running != staying ->
        if
        :: left && running < CORES -> wanted = true
        :: else -> skip
        fi;
        unlock();
        goto join
    :: else -> skip
    fi;
    inside++;
    phase++;
#if MUTANT == 3
    if
    :: phase == PHASES || failed ->
#else
    if
    :: phase == PHASES || (failed && staying == 0) ->
#endif
        assert(!over);
        inside--;
        over = true;
        assert(inside == 0);
        assert(failed || (done[0] == BLOCKS && done[1] == BLOCKS));
        unlock();
        goto end
    :: else -> skip
    fi;
    next = 0;
#if MUTANT == 2
    running = 1;
#else
    running = 1 + staying;
#endif
    staying = 0;
    if
    :: running < CORES -> wanted = true
    :: else -> skip
    fi;
    turns++;
    unlock();
    goto blocks;
end:
    skip
}

init { atomic { run worker(true); run worker(false); run worker(false) } }
