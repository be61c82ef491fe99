// Controls of the tests' libnccl.so.2, tests/plugins/fake_nccl.cc.
#pragma once

#include <atomic>
#include <cstdint>

namespace foretrain {

struct FakeNccl {
  std::atomic<std::int64_t> calls{0};     // calls that can fail
  std::atomic<std::int64_t> fail_at{-1};  // the call that fails, counted from 0
  std::atomic<int> live{0};               // communicators
  std::atomic<int> made{0};
  std::atomic<int> aborts{0};
  std::atomic<int> async_error_rank{-1};  // communicators of this member fail
  std::atomic<bool> hang_finalize{false};
  std::atomic<bool> unbalanced{false};  // a group was closed that nobody had opened
  int version = 22809;
  // For devices that defer work: enqueues work on a stream. Null: work is done at once.
  void (*give)(void* stream, void (*work)(void*), void* argument) = nullptr;
  // For devices whose memory the host cannot access: where that work finds a tensor.
  void* (*reach)(void* tensor) = nullptr;

  void Reset() {
    calls = 0;
    fail_at = async_error_rank = -1;
    aborts = made = 0;
    give = nullptr;
    reach = nullptr;
    hang_finalize = unbalanced = false;
    version = 22809;
  }
};

}  // namespace foretrain
