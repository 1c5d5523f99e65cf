"""A tensor and an event in another process, and an external event."""
import torch
import torch.multiprocessing as mp
import torch_npu  # noqa: F401


def add_one(queue, done):
    tensor, event = queue.get()
    event.wait()
    tensor.add_(1)
    torch.npu.synchronize()
    done.put(tensor.sum().item())


def main():
    torch.npu.set_device(0)
    context = mp.get_context("spawn")
    queue, done = context.Queue(), context.Queue()
    child = context.Process(target=add_one, args=(queue, done))
    child.start()
    tensor = torch.arange(6.0, device="npu")
    event = torch.npu.Event(enable_timing=False, interprocess=True)
    event.record()
    queue.put((tensor, event))
    assert done.get(timeout=200) == 21
    child.join()
    assert tensor.cpu().tolist() == [1, 2, 3, 4, 5, 6]

    external, side = torch.npu.ExternalEvent(), torch.npu.Stream()
    with torch.npu.stream(side):
        external.wait(side)  # before it is recorded
        doubled = tensor * 2
    external.record(torch.npu.current_stream())
    torch.npu.synchronize()
    assert doubled.cpu().tolist() == [2, 4, 6, 8, 10, 12]
    print("fine")


if __name__ == "__main__":
    main()
