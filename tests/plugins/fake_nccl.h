// What the tests tell their libnccl.so.2, tests/plugins/fake_nccl.cc.
#pragma once

#include <atomic>
#include <cstdint>

namespace foretrain {

struct FakeNccl {
  std::atomic<std::int64_t> calls{0};     // of any that can fail
  std::atomic<std::int64_t> fail_at{-1};  // this one does, counted from 0
  std::atomic<int> live{0};               // communicators
  std::atomic<int> made{0};
  std::atomic<int> aborts{0};
  std::atomic<int> async_error_rank{-1};  // communicators of this member fail, once made
  std::atomic<bool> hang_finalize{false};
  std::atomic<bool> unbalanced{false};  // a group was closed that nobody had opened
  int version = 22809;
  // Where a device works later: gives a stream work to do in its turn. Null: work is done at once.
  void (*give)(void* stream, void (*work)(void*), void* argument) = nullptr;

  void Reset() {
    calls = 0;
    fail_at = async_error_rank = -1;
    aborts = made = 0;
    give = nullptr;
    hang_finalize = unbalanced = false;
    version = 22809;
  }
};

}  // namespace foretrain
