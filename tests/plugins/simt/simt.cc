#include "tests/plugins/simt/simt.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <sstream>

// Switches stacks: saves the six callee-saved registers, swaps the stack pointer and restores the
// other fiber's registers.
asm(R"(
.text
.globl foretrain_fiber_switch
.hidden foretrain_fiber_switch
.type foretrain_fiber_switch,@function
foretrain_fiber_switch:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp,(%rdi); movq %rsi,%rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
.size foretrain_fiber_switch,.-foretrain_fiber_switch
)");
extern "C" void foretrain_fiber_switch(void** save_stack, void* load_stack);

namespace foretrain::simt {
namespace {

constexpr std::size_t kStackBytes = std::size_t{64} << 10;

thread_local Thread* current = nullptr;

// First function of each fiber. It never returns: the last switch leaves the fiber for good.
void RunThread() {
  Thread& t = *current;
  t.block->launch->run(t);
  Await(t, Wait::kDone);
}

// Stacks are reused from launch to launch. A fiber of a new block starts at the top of its stack.
void* FreshStack(unsigned fiber) {
  thread_local std::vector<std::unique_ptr<char[]>> stacks;
  while (stacks.size() <= fiber) stacks.emplace_back(new char[kStackBytes]);
  char* end = stacks[fiber].get() + kStackBytes;
  end -= reinterpret_cast<std::uintptr_t>(end) % 16;
  // Layout: six registers that the first switch pops, the return address, and a word that aligns
  // the stack as at a call.
  auto** const top = reinterpret_cast<void**>(end) - 8;
  std::fill(top, top + 8, nullptr);
  top[6] = reinterpret_cast<void*>(&RunThread);
  return top;
}

// The pattern decodes to no plausible value, so that reads before writes show.
constexpr std::byte kUnwritten{0xcd};

void Begin(Block& block) {
  std::fill_n(block.shared, block.launch->shared_bytes, kUnwritten);
  if (block.launch->begin_block) block.launch->begin_block();
  for (unsigned i = 0; i < block.threads.size(); ++i) {
    Thread& t = block.threads[i];
    t.block = &block;
    t.number = i;
    t.index = {i % block.size.x, i / block.size.x % block.size.y,
               i / (block.size.x * block.size.y)};
    t.wait = Wait::kNone;
    t.copies.clear();
    t.groups = t.block_barriers = t.warp_barriers = t.exchanges = 0;
    t.published[0] = t.published[1] = {};
    t.stack = FreshStack(i);
  }
}

// True if all lanes in the mask of `t` wait at the same warp barrier or have left.
bool IsMet(const Block& block, unsigned warp, const Thread& t) {
  for (unsigned lane = 0; lane < kLanes && warp + lane < block.threads.size(); ++lane) {
    if ((t.mask >> lane & 1U) == 0) continue;
    const Thread& other = block.threads[warp + lane];
    if (other.wait == Wait::kDone) continue;
    if (other.wait != Wait::kWarp || other.mask != t.mask) return false;
  }
  return true;
}

// Releases the warp barriers whose lanes have all arrived. Returns true if any was released.
bool ReleaseWarp(Block& block, unsigned warp) {
  bool released = false;
  for (unsigned i = warp; i < warp + kLanes && i < block.threads.size(); ++i) {
    const unsigned mask = block.threads[i].mask;
    if (block.threads[i].wait != Wait::kWarp || !IsMet(block, warp, block.threads[i])) continue;
    for (unsigned lane = 0; lane < kLanes && warp + lane < block.threads.size(); ++lane) {
      Thread& other = block.threads[warp + lane];
      if ((mask >> lane & 1U) != 0 && other.wait == Wait::kWarp) other.wait = Wait::kNone;
    }
    released = true;
  }
  return released;
}

// Runs a warp until each of its threads waits at the block's barrier or has left. Returns false
// after a fault.
bool RunWarp(Block& block, unsigned warp, const std::array<unsigned, kLanes>& lanes) {
  do {
    for (const unsigned lane : lanes) {
      if (warp + lane >= block.threads.size()) continue;
      Thread& t = block.threads[warp + lane];
      if (t.wait == Wait::kUntil && (*t.until)()) t.wait = Wait::kNone;
      if (t.wait != Wait::kNone) continue;
      block.ran = true;
      current = &t;
      foretrain_fiber_switch(&block.scheduler, t.stack);
      if (block.outcome.fault != Fault::kNone) return false;
    }
  } while (ReleaseWarp(block, warp));
  return true;
}

std::string Place(const Block& block) {
  std::ostringstream out;
  out << block.launch->kernel << ": block " << block.index.x << "," << block.index.y << ","
      << block.index.z;
  return out.str();
}

class Orders {
 public:
  explicit Orders(Order order) : order_(order) {}
  // Fills `numbers` with 0, 1, ... in the order of the launch. Random orders have one seed, so that
  // a failing one can be repeated.
  template <class Numbers>
  void Arrange(Numbers& numbers) {
    std::iota(numbers.begin(), numbers.end(), 0U);
    if (order_ == Order::kReverse) std::reverse(numbers.begin(), numbers.end());
    if (order_ == Order::kRandom) std::shuffle(numbers.begin(), numbers.end(), engine_);
  }

 private:
  Order order_;
  std::mt19937 engine_{1};
};

void RunBlock(Block& block, Orders& orders) {
  Begin(block);
  std::vector<unsigned> warps((block.threads.size() + kLanes - 1) / kLanes);
  std::array<unsigned, kLanes> lanes;
  const auto later = [&](Moment moment) {
    return block.launch->later && block.launch->later(block, moment);
  };
  while (true) {
    block.ran = false;
    orders.Arrange(warps);
    for (const unsigned warp : warps) {
      orders.Arrange(lanes);
      if (!RunWarp(block, warp * kLanes, lanes)) return;
    }
    const bool has_more = later(Moment::kRound);
    std::size_t done = 0, waiting = 0, until = 0;
    for (const Thread& t : block.threads) {
      done += t.wait == Wait::kDone ? 1 : 0;
      waiting += t.wait == Wait::kBlock ? 1 : 0;
      until += t.wait == Wait::kUntil ? 1 : 0;
    }
    if (done == block.threads.size()) {
      if (later(Moment::kEnd)) {
        block.outcome = {Fault::kBarrier,
                         Place(block) + ": all threads left while a copy was under way"};
      }
      return;
    }
    if (waiting == block.threads.size()) {
      for (Thread& t : block.threads) t.wait = Wait::kNone;
    } else if (!block.ran && !has_more && !later(Moment::kStuck)) {
      const char* const what = until > 0  ? ": threads wait for a barrier that nothing completes"
                               : done > 0 ? ": some threads left while others wait at a barrier"
                                          : ": threads wait at different barriers";
      block.outcome = {Fault::kBarrier, Place(block) + what};
      return;
    }
  }
}

}  // namespace

Thread& Current() { return *current; }

void Await(Thread& t, Wait wait, unsigned mask) {
  t.wait = wait;
  t.mask = mask;
  foretrain_fiber_switch(&t.stack, t.block->scheduler);
}

void AwaitUntil(Thread& t, const std::function<bool()>& is_over) {
  t.until = &is_over;
  Await(t, Wait::kUntil);
}

// The scheduler does not resume any thread after a fault.
void Fail(Thread& t, Fault fault, const std::string& what) {
  std::ostringstream sentence;
  sentence << Place(*t.block) << ", thread " << t.number << ": " << what;
  t.block->outcome = {fault, sentence.str()};
  Await(t, Wait::kDone);
  __builtin_unreachable();
}

// A lane may run ahead by one instruction before another reads, so two are kept.
Exchange::Exchange(Thread& t, WarpInstruction instruction, const LaneWords& words)
    : t_(t), first_(&t.block->threads[t.number - t.lane()]), number_(++t.exchanges) {
  lanes_ = static_cast<unsigned>(
      std::min<std::size_t>(kLanes, t.block->threads.size() - first_->number));
  t.published[number_ % 2] = {instruction, number_, words};
  Await(t, Wait::kWarp, ~0U);
  for (unsigned lane = 0; lane < lanes_; ++lane) {
    const Published& other = first_[lane].published[number_ % 2];
    if (other.number != number_ || other.instruction != instruction) {
      Fail(t, Fault::kBarrier, "the lanes of a warp execute different instructions together");
    }
  }
}
const LaneWords& Exchange::operator[](unsigned lane) const {
  return (lane < lanes_ ? first_[lane] : t_).published[number_ % 2].words;
}

void Finish(const Copy& copy) {
  if (copy.from != nullptr) {
    std::memcpy(copy.to, copy.from, copy.bytes);
  } else {
    std::memset(copy.to, 0, copy.bytes);
  }
}
void BeginCopy(Thread& t, const Copy& copy) {
  if (t.block->launch->order == Order::kForward) {
    Finish(copy);
  } else {
    t.copies.push_back(copy);
  }
}
void AwaitCopies(Thread& t, unsigned left, const std::function<void(const Copy&)>& done) {
  std::erase_if(t.copies, [&](const Copy& copy) {
    if (copy.group + left >= t.groups) return false;
    done(copy);
    Finish(copy);
    return true;
  });
}

Outcome Execute(const Launch& launch) {
  Block block;
  block.launch = &launch;
  block.grid = launch.grid;
  block.size = launch.block;
  block.threads.resize(Count(launch.block));
  constexpr std::size_t kAlignment = 1024;
  block.storage.resize(launch.shared_bytes + kAlignment);
  const auto storage = reinterpret_cast<std::uintptr_t>(block.storage.data());
  block.shared = block.storage.data() + (kAlignment - storage % kAlignment) % kAlignment;
  Orders orders(launch.order);
  std::vector<unsigned> blocks(Count(launch.grid));
  orders.Arrange(blocks);
  for (const unsigned i : blocks) {
    block.index = {i % launch.grid.x, i / launch.grid.x % launch.grid.y,
                   i / (launch.grid.x * launch.grid.y)};
    RunBlock(block, orders);
    if (block.outcome.fault != Fault::kNone) break;
  }
  return block.outcome;
}

}  // namespace foretrain::simt
