"""What generators share: threads that run one plan at once, and a command that tries seed after seed."""

import argparse
import itertools
import threading
import time

import weir


def in_threads(run, device, wrong, note):
    """``run(number)`` in three threads, each on a stream of its own. What they raise is wrong."""

    def work(number):
        try:
            with weir.stream(weir.Stream(device=device)):
                run(number)
        except Exception as error:
            wrong.append(f"{note}: {error!r}")

    threads = [threading.Thread(target=work, args=(i,)) for i in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main(description, what, try_seed, **defaults):
    """Tries seeds for some seconds: ``try_seed(seed, **options)`` gives a count of runs and what was wrong."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--first", type=int, default=0, help="seed")
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", default=value)
    given = vars(parser.parse_args())
    end, runs, bad, first = time.time() + given.pop("seconds"), 0, 0, given.pop("first")
    for seed in itertools.count(first):
        if time.time() > end:
            break
        done, wrong = try_seed(seed, **given)
        runs, bad = runs + done, bad + bool(wrong)
        if wrong:
            print("\n".join(wrong), flush=True)
    print(f"{runs} runs of {what} {first}..{seed - 1}, {bad} {what} differ")
    return 1 if bad else 0
