#include "tests/plugins/shim/host_shim.h"

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

// Switches stacks: saves the six callee-saved registers, swaps the stack pointer and restores the
// other fiber's registers.
asm(R"(
.text
.globl foretrain_shim_switch
.type foretrain_shim_switch,@function
foretrain_shim_switch:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp,(%rdi); movq %rsi,%rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
.size foretrain_shim_switch,.-foretrain_shim_switch
)");

namespace foretrain::shim {
namespace {

constexpr std::size_t kStackBytes = 64 * 1024;

// First function of each fiber. It never returns: the last switch leaves the fiber for good.
void Entry() {
  (*running->body)();
  running->current->wait = Wait::kDone;
  foretrain_shim_switch(&running->current->stack_pointer, running->scheduler);
}

// Stacks are reused from launch to launch. A fiber of a new block starts at the top of its stack.
void* FreshStack(unsigned fiber) {
  static std::vector<std::unique_ptr<char[]>> stacks;
  while (stacks.size() <= fiber) stacks.emplace_back(new char[kStackBytes]);
  const auto end = reinterpret_cast<std::uintptr_t>(stacks[fiber].get() + kStackBytes);
  // Layout: six registers that the first switch pops, the return address, and a word that aligns
  // the stack as at a call.
  auto** const top = reinterpret_cast<void**>(end & ~std::uintptr_t{15}) - 8;
  std::fill(top, top + 8, nullptr);
  top[6] = reinterpret_cast<void*>(&Entry);
  return top;
}

void Begin(Block& block) {
  // Fills shared memory with a pattern that decodes to no plausible value, so that reads before
  // writes show.
  std::fill(block.dynamic.begin(), block.dynamic.end(), static_cast<char>(0xcd));
  for (unsigned i = 0; i < block.fibers.size(); ++i) {
    Fiber& fiber = block.fibers[i];
    fiber.number = i;
    fiber.thread = {i % block.block.x, i / block.block.x % block.block.y,
                    i / (block.block.x * block.block.y)};
    fiber.wait = Wait::kNone;
    fiber.copies.clear();
    fiber.groups = 0;
    fiber.stack_pointer = FreshStack(i);
  }
}

// True if all lanes in `fiber`'s mask wait with the same mask or have left.
bool IsMet(const Block& block, unsigned warp, const Fiber& fiber) {
  for (unsigned lane = 0; lane < 32 && warp + lane < block.fibers.size(); ++lane) {
    if ((fiber.mask >> lane & 1U) == 0) continue;
    const Fiber& other = block.fibers[warp + lane];
    if (other.wait == Wait::kDone) continue;
    if (other.wait != Wait::kWarp || other.mask != fiber.mask) return false;
  }
  return true;
}

// Releases every warp barrier whose lanes have all arrived. Returns true if any was released.
bool ReleaseWarps(Block& block) {
  bool released = false;
  const auto count = static_cast<unsigned>(block.fibers.size());
  for (unsigned i = 0; i < count; ++i) {
    const unsigned warp = i & ~31U, mask = block.fibers[i].mask;
    if (block.fibers[i].wait != Wait::kWarp || !IsMet(block, warp, block.fibers[i])) continue;
    for (unsigned lane = 0; lane < 32 && warp + lane < count; ++lane) {
      Fiber& other = block.fibers[warp + lane];
      if ((mask >> lane & 1U) != 0 && other.wait == Wait::kWarp) other.wait = Wait::kNone;
    }
    released = true;
  }
  return released;
}

// Releases a block if all its threads wait at the block barrier. Returns the number of threads that
// have left. Threads that left before a barrier are a failure, as on a GPU.
std::size_t ReleaseBlock(Block& block, bool& released) {
  std::size_t done = 0, waiting = 0;
  for (const Fiber& fiber : block.fibers) {
    done += fiber.wait == Wait::kDone ? 1 : 0;
    waiting += fiber.wait == Wait::kBlock ? 1 : 0;
  }
  if (waiting == 0 || done + waiting != block.fibers.size()) return done;
  if (done > 0) {
    std::fprintf(stderr, "shim: %zu threads left, %zu wait at __syncthreads\n", done, waiting);
    ++failures;
  }
  for (Fiber& fiber : block.fibers) {
    if (fiber.wait == Wait::kBlock) fiber.wait = Wait::kNone;
  }
  released = true;
  return done;
}

// The random engine has a fixed seed, so that a failing order can be repeated.
void Arrange(std::vector<unsigned>& turns) {
  static std::mt19937 engine(1);
  if (order == Order::kRandom) std::shuffle(turns.begin(), turns.end(), engine);
}

// Round-robin scheduler: each fiber runs until it waits. If no fiber ran and no barrier opened, the
// block is deadlocked, and the process ends.
void RunBlock(Block& block, std::vector<unsigned>& turns) {
  Begin(block);
  while (true) {
    Arrange(turns);
    bool ran = false;
    for (const unsigned i : turns) {
      if (block.fibers[i].wait != Wait::kNone) continue;
      block.current = &block.fibers[i];
      foretrain_shim_switch(&block.scheduler, block.current->stack_pointer);
      ran = true;
    }
    if (ReleaseWarps(block)) ran = true;
    if (ReleaseBlock(block, ran) == block.fibers.size()) return;
    if (ran) continue;
    std::fprintf(stderr, "shim: barriers of block %u,%u,%u are never met\n", block.index.x,
                 block.index.y, block.index.z);
    std::abort();
  }
}

}  // namespace

void Launch(dim3 grid, dim3 block, std::size_t dynamic_bytes, const std::function<void()>& body) {
  static std::mutex mutex;  // shared memory is a static variable
  const std::lock_guard<std::mutex> lock(mutex);
  Block state;
  state.grid = grid;
  state.block = block;
  state.body = &body;
  state.fibers.resize(std::size_t{block.x} * block.y * block.z);
  state.slots.resize(state.fibers.size());
  state.dynamic.resize(dynamic_bytes);
  std::vector<unsigned> turns(state.fibers.size());
  std::iota(turns.begin(), turns.end(), 0U);
  if (order == Order::kReverse) std::reverse(turns.begin(), turns.end());
  running = &state;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        state.index = {x, y, z};
        RunBlock(state, turns);
      }
    }
  }
  running = nullptr;
}

}  // namespace foretrain::shim
