// Executes thread blocks of a GPU on the host, for tests. Each CUDA thread is a fiber; the blocks
// of a launch run one after the other in the calling thread. x86-64 only, because the fiber switch
// is assembly.
//
// A warp runs as far as it can, to a barrier of the block, before another one begins, and a thread
// runs until it waits. Three orders of threads, warps and blocks therefore show missing barriers.
// Leaves out true concurrency, memory ordering, clusters and time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace foretrain::simt {

constexpr unsigned kLanes = 32;  // of a warp

struct Dim {
  unsigned x = 1, y = 1, z = 1;
};
inline std::size_t Count(const Dim& dim) { return std::size_t{dim.x} * dim.y * dim.z; }

enum class Order { kForward, kReverse, kRandom };  // of threads, warps and blocks

enum class Fault { kNone, kTrap, kMisaligned, kIllegalAddress, kBarrier, kRace };

enum class Wait : std::uint8_t { kNone, kBlock, kWarp, kUntil, kDone };

// When a launch is asked to complete asynchronous work of a block: after each round of its warps,
// when no thread can run, and when all have left.
enum class Moment { kRound, kStuck, kEnd };

// Instructions that the lanes of a warp execute together.
enum class WarpInstruction : std::uint8_t {
  kNone,
  kShuffle,
  kBallot,
  kLoad,
  kLoadTransposed,
  kMultiply,
  kWarpgroupMultiply,
  kWarpgroupWait
};
using LaneWords = std::array<std::uint32_t, 6>;
struct Published {
  WarpInstruction instruction = WarpInstruction::kNone;
  std::uint32_t number = 0;  // of the lane's warp instructions
  LaneWords words = {};
};

// An asynchronous copy to shared memory that is under way.
struct Copy {
  std::byte* to;
  const std::byte* from;  // NULL: zeros
  unsigned bytes, group;
};

struct Block;
struct Thread {
  Block* block = nullptr;
  void* stack = nullptr;
  Dim index;
  unsigned number = 0;  // within the block
  Wait wait = Wait::kNone;
  unsigned mask = 0;                             // lanes of the warp barrier that it waits at
  const std::function<bool()>* until = nullptr;  // the condition that it waits for
  // Warp instructions so far, and what the last two published.
  std::uint32_t exchanges = 0;
  Published published[2] = {};
  std::vector<Copy> copies;
  unsigned groups = 0;  // of copies
  // Barriers passed so far; those of a warp count in its lanes.
  std::uint32_t block_barriers = 0, warp_barriers = 0;

  unsigned lane() const { return number % kLanes; }
};

struct Outcome {
  Fault fault = Fault::kNone;
  std::string sentence;  // names kernel, block and thread
};

// One launch. Shared memory is filled with a pattern before each block.
struct Launch {
  std::string kernel;
  Dim grid, block;
  std::size_t shared_bytes = 0;
  Order order = Order::kForward;
  std::function<void(Thread&)> run;
  std::function<void()> begin_block;  // called before each block; may be empty
  // Completes asynchronous work; returns whether there was any. May be empty.
  std::function<bool(Block&, Moment)> later;
};

struct Block {
  const Launch* launch = nullptr;
  Dim grid, size, index;
  std::vector<Thread> threads;
  std::vector<std::byte> storage;
  std::byte* shared = nullptr;  // aligned to 1,024 bytes
  void* scheduler = nullptr;
  bool ran = false;  // a thread ran in this round of the warps
  Outcome outcome;
};

// Runs all blocks, or until the first fault. Safe from any thread.
Outcome Execute(const Launch& launch);

// The thread that executes now.
Thread& Current();

// Gives control to the scheduler until the wait is over.
void Await(Thread& t, Wait wait, unsigned mask = 0);

// Gives control to the scheduler until the condition holds. It may be evaluated in any thread.
void AwaitUntil(Thread& t, const std::function<bool()>& is_over);

inline void BlockBarrier(Thread& t) {
  Await(t, Wait::kBlock);
  ++t.block_barriers;
}
inline void WarpBarrier(Thread& t, unsigned mask) {
  Await(t, Wait::kWarp, mask);
  ++t.warp_barriers;
}

// Ends the launch with a fault of this thread.
[[noreturn]] void Fail(Thread& t, Fault fault, const std::string& what);

// Publishes words, waits for all lanes of the warp, which must execute the same instruction, and
// lets them be read. A lane that does not exist has the reader's own words. The exchange does not
// order accesses to shared memory.
class Exchange {
 public:
  Exchange(Thread& t, WarpInstruction instruction, const LaneWords& words);
  const LaneWords& operator[](unsigned lane) const;
  unsigned size() const { return lanes_; }  // fewer than 32 in the last warp of some blocks

 private:
  Thread& t_;
  const Thread* first_;
  unsigned lanes_;
  std::uint32_t number_;
};

// Executes a copy that has been waited for.
void Finish(const Copy& copy);

// Begins a copy: in forward order it is done at once, in the others when it is waited for.
void BeginCopy(Thread& t, const Copy& copy);
// Waits until at most `left` groups of this thread's copies are pending; `done` sees each copy.
void AwaitCopies(Thread& t, unsigned left, const std::function<void(const Copy&)>& done);

}  // namespace foretrain::simt
