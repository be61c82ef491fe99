// The checks of the tests' CUDA runtime on kernels that are wrong on purpose: accesses out of
// bounds, races, reads of memory that nothing has written, and barriers that not all threads reach.
// They stand for memcheck, racecheck, initcheck and synccheck of compute-sanitizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/device_api.h"
#include "tests/cuda/plugin.h"
#include "tests/plugins/cuda/instructions.h"

namespace foretrain {
namespace {

using ptx::AwaitCopies;
using ptx::BarSync;
using ptx::CommitCopies;
using ptx::CopyAsync;
using ptx::GlobalRead;
using ptx::GlobalWrite;
using ptx::Load;
using ptx::SharedRead;
using ptx::SharedWrite;
using ptx::Store;
using simt::Fault;
using simt::Order;
using simt::Thread;
using testing::AllOf;
using testing::HasSubstr;

constexpr unsigned kThreads = 64;  // two warps
constexpr int kSite = 0;           // of no mutant

// Device memory of one allocation: a word for each thread.
struct Memory {
  std::array<std::uint32_t, kThreads> words{};
  std::uint64_t At(std::uint64_t word) const {
    return reinterpret_cast<std::uint64_t>(words.data()) + 4 * word;
  }
};

// Kernels are plain functions; the memory is a global because they have no other way to it.
Memory* memory;

simt::Outcome Execute(void (*kernel)(Thread&, const std::byte* const*), Order order) {
  Memory device;
  memory = &device;
  ptx::Kernel made;
  made.name = "wrong";
  made.run = kernel;
  made.shared_bytes = 4 * kThreads;
  ptx::Options options;
  options.order = order;
  options.memory_at = [&](std::uintptr_t address) {
    const ptx::Range all{device.At(0), device.At(kThreads)};
    // An address behind the end belongs to the allocation before it, as in the runtime.
    return address >= all.begin && address < all.end + 64 ? all : ptx::Range{};
  };
  ptx::Counts counts;
  return ptx::Execute(made, {}, {kThreads}, 0, nullptr, options, counts);
}

constexpr std::array kOrders = {Order::kForward, Order::kReverse, Order::kRandom};

// Expects the fault in all three orders of threads.
void ExpectFault(void (*kernel)(Thread&, const std::byte* const*), Fault fault,
                 const std::string& sentence) {
  for (const Order order : kOrders) {
    const simt::Outcome outcome = Execute(kernel, order);
    EXPECT_EQ(outcome.fault, fault) << outcome.sentence;
    EXPECT_THAT(outcome.sentence,
                AllOf(HasSubstr("wrong: block 0,0,0, thread "), HasSubstr(sentence)));
  }
}

// Each thread stores its number, and after the barrier gives its neighbour's to device memory.
void Right(Thread& t, const std::byte* const*) {
  Store(SharedWrite<4>(t, 4 * t.number), t.number);
  BarSync(t, kSite);
  const auto other = Load<std::uint32_t>(SharedRead<4>(t, 4 * ((t.number + 1) % kThreads)));
  Store(GlobalWrite<4>(t, memory->At(t.number)), other);
}

TEST(KernelChecks, PassAKernelThatIsRight) {
  for (const Order order : kOrders) {
    const simt::Outcome outcome = Execute(Right, order);
    EXPECT_EQ(outcome.fault, Fault::kNone) << outcome.sentence;
  }
}

TEST(KernelChecks, FindAnAccessOutOfBoundsOfDeviceMemory) {
  ExpectFault(
      [](Thread& t, const std::byte* const*) { GlobalRead<4>(t, memory->At(t.number + 1)); },
      Fault::kIllegalAddress, "access of 4 bytes at 0x");
  ExpectFault(
      [](Thread& t, const std::byte* const*) { GlobalWrite<4>(t, memory->At(t.number + 1)); },
      Fault::kIllegalAddress, "byte 256 of an allocation of 256");
  // A part of the access lies behind the end.
  ExpectFault(
      [](Thread& t, const std::byte* const*) {
        if (t.number == 63) GlobalWrite<8>(t, memory->At(t.number + 1) - 4 + 4 * (t.number % 2));
      },
      Fault::kIllegalAddress, "access of 8 bytes");
  ExpectFault([](Thread& t, const std::byte* const*) { GlobalRead<4>(t, 4096 + 4 * t.number); },
              Fault::kIllegalAddress, "which is no memory of the device");
}

TEST(KernelChecks, FindAnAccessThatIsNotAligned) {
  ExpectFault([](Thread& t, const std::byte* const*) { GlobalRead<4>(t, memory->At(1) + 2); },
              Fault::kMisaligned, "a global address is not aligned");
  ExpectFault([](Thread& t, const std::byte* const*) { SharedWrite<4>(t, 2); }, Fault::kMisaligned,
              "a shared address is not aligned");
}

TEST(KernelChecks, FindAnAccessOutOfBoundsOfSharedMemory) {
  ExpectFault([](Thread& t, const std::byte* const*) { SharedWrite<4>(t, 4 * (t.number + 1)); },
              Fault::kIllegalAddress, "an address is behind the block's shared memory");
}

// Right without its barrier: in each order some thread reads before its neighbour writes, or after
// it without a barrier between.
TEST(KernelChecks, FindARaceInSharedMemory) {
  for (const Order order : kOrders) {
    const simt::Outcome outcome = Execute(
        [](Thread& t, const std::byte* const*) {
          Store(SharedWrite<4>(t, 4 * t.number), t.number);
          SharedRead<4>(t, 4 * ((t.number + 32) % kThreads));
        },
        order);
    EXPECT_EQ(outcome.fault, Fault::kRace) << outcome.sentence;
  }
  ExpectFault([](Thread& t, const std::byte* const*) { SharedWrite<4>(t, 4 * (t.number % 32)); },
              Fault::kRace, "write after the write of thread ");
  // All read what thread 0 has written, and one overwrites it without a second barrier.
  ExpectFault(
      [](Thread& t, const std::byte* const*) {
        if (t.number == 0) SharedWrite<4>(t, 0);
        BarSync(t, kSite);
        SharedRead<4>(t, 0);
        if (t.number == 0 || t.number == 63) SharedWrite<4>(t, 0);
      },
      Fault::kRace, "race in shared memory at byte 0: ");
}

// In forward order copies are done at once, and nothing can be noticed.
TEST(KernelChecks, FindAnAsynchronousCopyThatIsUsedTooEarly) {
  const auto kernel = [](Thread& t, const std::byte* const*) {
    CopyAsync<4>(t, 4 * t.number, memory->At(t.number), 4);
    CommitCopies(t);
    SharedRead<4>(t, 4 * t.number);
  };
  for (const Order order : {Order::kReverse, Order::kRandom}) {
    const simt::Outcome outcome = Execute(kernel, order);
    EXPECT_EQ(outcome.fault, Fault::kRace);
    EXPECT_THAT(outcome.sentence, HasSubstr("before an asynchronous copy to it was waited for"));
  }
  const auto right = [](Thread& t, const std::byte* const*) {
    CopyAsync<4>(t, 4 * t.number, memory->At(t.number), 4);
    CommitCopies(t);
    AwaitCopies(t, kSite, 0);
    SharedRead<4>(t, 4 * t.number);
  };
  for (const Order order : kOrders) EXPECT_EQ(Execute(right, order).fault, Fault::kNone);
}

TEST(KernelChecks, FindAReadOfSharedMemoryThatNothingHasWritten) {
  ExpectFault(
      [](Thread& t, const std::byte* const*) {
        if (t.number != 5) SharedWrite<4>(t, 4 * t.number);
        BarSync(t, kSite);
        SharedRead<4>(t, 4 * ((t.number + 1) % kThreads));
      },
      Fault::kRace, "byte 20 of shared memory is read, but no thread of the block has written it");
}

TEST(KernelChecks, FindABarrierThatNotAllThreadsReach) {
  for (const Order order : kOrders) {
    const simt::Outcome left = Execute(
        [](Thread& t, const std::byte* const*) {
          if (t.number < 40) BarSync(t, kSite);
        },
        order);
    EXPECT_EQ(left.fault, Fault::kBarrier);
    EXPECT_THAT(left.sentence, HasSubstr("some threads left while others wait at a barrier"));
  }
}

}  // namespace
}  // namespace foretrain
