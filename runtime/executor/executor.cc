#include "runtime/executor/executor.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/units.h"
#include "runtime/executor/placement.h"
#include "runtime/executor/rank_plan.h"
#include "runtime/executor/rank_run.h"
#include "runtime/executor/run_shared.h"
#include "runtime/inproc/inproc_world.h"

namespace foretrain {
namespace {

// Time that other threads get to return after the first error.
constexpr auto kGrace = std::chrono::milliseconds(1000);

int WorldOf(const Program& program) {
  int world = 0;
  for (const RankProgram& rank : program.ranks) world = std::max(world, rank.rank + 1);
  return world;
}

// Ranks that run here if none are named: all.
std::vector<LocalRank> AllOn(const Program& program, int device) {
  std::vector<LocalRank> local;
  for (const RankProgram& rank : program.ranks) local.push_back({rank.rank, device});
  return local;
}

// Indices in Program::ranks of the ranks that run here. Both lists are walked once, which needs
// them in the same order.
Result<std::vector<int>> PlacesOf(const Program& program, const std::vector<LocalRank>& local) {
  std::vector<int> places;
  std::size_t found = 0;
  for (std::size_t i = 0; i < program.ranks.size() && found < local.size(); ++i) {
    if (program.ranks[i].rank != local[found].rank) continue;
    places.push_back(static_cast<int>(i));
    ++found;
  }
  if (found == local.size()) return places;
  return Fail(ErrorCode::kInvalidArgument,
              "the program has no rank " + std::to_string(local[found].rank) +
                  " to run here, or has it before one that was named before it");
}

// Shares of multiprocessors need all ranks on one device.
Result<void> CheckDevices(const ExecutorOptions& options) {
  bool one = true;
  for (const LocalRank& local : options.local) {
    one = one && local.device == options.local.front().device;
  }
  if (one || options.sm_share == 0) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "shares of multiprocessors are of one device, and the ranks have several");
}

}  // namespace

// Everything that the threads of a run share. It lives until the last of them has returned, even if
// the executor is gone.
struct Executor::State {
  // `owner`: whose arenas the ranks use, and whose control, so that a failure of either ends both;
  // null: their own.
  State(std::shared_ptr<State> owner, std::shared_ptr<const Program> program,
        const FtDeviceApi& api, RunClock& clock, ExecutorOptions options, int world_size)
      : memory(std::move(owner)),
        shared(std::move(program), api, clock, memory ? memory->shared.control : own_control,
               std::move(options), world_size),
        in_turn(shared.program.get()) {}

  // Ops of ranks in other processes are named too, because the program holds all ranks.
  std::string TextOf(int rank, OpId op) const {
    const Program& program = *in_turn.load();
    for (const RankProgram& of_rank : program.ranks) {
      if (of_rank.rank == rank) return OpText(program, of_rank, op);
    }
    return Describe(op);
  }

  // A program in another's memory exchanges tensors between processes as that one does: a group of
  // processes has one world.
  Result<void> ShareWorld() {
    for (std::size_t i = 0; i < shared.program->ranks.size(); ++i) {
      const std::vector<ChannelKey> known =
          KeysOf(*memory->shared.program, memory->shared.program->ranks[i]);
      for (const ChannelKey& key : KeysOf(*shared.program, shared.program->ranks[i])) {
        if (std::binary_search(known.begin(), known.end(), key)) continue;
        return Fail(ErrorCode::kUnsupported,
                    "the program that shares the memory of another one has a communicator " +
                        key.Text("of its own,") + "; run the ranks as threads of one process");
      }
    }
    return {};
  }
  RankWorld& World() { return world != nullptr ? *world : *memory->world; }

  // Creates the communicators of `options.local`.
  Result<void> MakeWorld() {
    const std::vector<LocalRank>& local = shared.options.local;
    if (memory != nullptr && shared.options.world) return ShareWorld();
    const auto text = [this](int rank, OpId op) { return TextOf(rank, op); };
    if (shared.options.world) {
      FT_ASSIGN(world, shared.options.world({*shared.program, local, shared.api, shared.clock,
                                             shared.control, shared.flight,
                                             shared.options.timeout_ns, text}));
      return {};
    }
    const int size = WorldOf(*shared.program);
    std::vector<int> devices(static_cast<std::size_t>(size), 0);
    for (const LocalRank& at : local) devices[static_cast<std::size_t>(at.rank)] = at.device;
    world = std::make_unique<InprocWorld>(
        size, shared.api, shared.clock, shared.control, shared.flight,
        InprocOptions{shared.options.timeout_ns, text, std::move(devices)});
    return {};
  }

  const std::shared_ptr<State> memory;
  RunControl own_control;
  RunShared shared;
  std::atomic<const Program*> in_turn;          // of those that use this world, the one that runs
  std::unique_ptr<RankWorld> world;             // null: that of `memory`
  std::vector<std::unique_ptr<RankRun>> ranks;  // ranks that run here, in the program's order
  std::vector<RankSlot> slots;                  // of all ranks of the program, by slot
  std::int64_t next_step = 0;

  std::mutex mutex;
  std::condition_variable one_left;
  int running = 0;  // threads of the run; guarded by mutex
};

namespace {

// Body of each thread. It holds shared pointers to everything it touches, so that a thread that
// never returns cannot touch freed memory.
template <class State, class Body>
void RunThread(const std::shared_ptr<State>& state, const std::shared_ptr<RunCall>& call,
               RankRun& rank, Body body) {
  (void)call;  // kept alive
  Result<void> end = Fail(ErrorCode::kIo, "threw something that is no exception");
  try {
    end = body();
  } catch (const std::exception& thrown) {
    end = Fail(ErrorCode::kIo, "rank " + std::to_string(rank.rank()) + " threw: " + thrown.what());
  } catch (...) {
    // `end` says so already.
  }
  if (!end.has_value()) rank.Report(std::move(end).error());
  state->shared.clock.RemoveThread();
  const std::lock_guard<std::mutex> lock(state->mutex);
  --state->running;
  state->one_left.notify_all();
}

constexpr auto kLook = std::chrono::milliseconds(100);  // interval at which a failed run is noticed

// Waits until all threads have returned or, after a failure, for kGrace more. Threads that still
// run are detached.
template <class State>
bool JoinAll(State& state, std::vector<std::thread>& threads) {
  std::unique_lock<std::mutex> lock(state.mutex);
  // A thread that waits for its device after a failure does not return, so the failure is polled.
  while (!state.one_left.wait_for(
      lock, kLook, [&] { return state.running == 0 || state.shared.control.Aborted(); })) {
  }
  const bool all = state.one_left.wait_for(lock, kGrace, [&] { return state.running == 0; });
  lock.unlock();
  for (std::thread& thread : threads) {
    if (all) {
      thread.join();
    } else {
      thread.detach();
    }
  }
  return all;
}

// Starts every thread of the local ranks: one a queue, one that waits for the device's completions
// and the host's. The clock counts this thread until all are started, so that a virtual clock
// cannot run ahead of those to come.
template <class State>
std::vector<std::thread> StartThreads(const std::shared_ptr<State>& held,
                                      const std::shared_ptr<RunCall>& call) {
  State& state = *held;
  RunClock& clock = state.shared.clock;
  clock.AddThread();
  std::vector<std::thread> threads;
  const bool pin = state.shared.options.pin;
  const auto start = [&](RankRun& rank, const RankSlot& slot, auto body) {
    clock.AddThread();
    {
      const std::lock_guard<std::mutex> lock(state.mutex);
      ++state.running;
    }
    const auto run = [held, call, &rank, &slot, pin, body] {
      RunThread(held, call, rank, [&]() -> Result<void> {
        if (pin) FT_TRY(PinThread(slot.cores));
        return body();
      });
    };
    try {
      threads.emplace_back(run);
    } catch (const std::system_error&) {
      // Counted as a thread that has ended; the failure ends those that run.
      rank.Report({ErrorCode::kResourceExhausted,
                   "rank " + std::to_string(rank.rank()) +
                       ": no thread can be started, and a rank needs one a queue: raise the limit "
                       "(ulimit -u, or pids of the container) or use fewer ranks a process"});
      clock.RemoveThread();
      const std::lock_guard<std::mutex> lock(state.mutex);
      --state.running;
    }
  };
  for (const RankSlot& slot : state.slots) {
    const auto found = std::find_if(state.ranks.begin(), state.ranks.end(),
                                    [&](const auto& rank) { return rank->rank() == slot.rank; });
    if (found == state.ranks.end()) continue;  // runs in another process
    RankRun* const at = found->get();
    for (const Queue queue : at->Queues()) {
      start(*at, slot, [at, queue] { return at->RunQueue(queue); });
    }
    if (at->HasCompletions()) start(*at, slot, [at] { return at->RunCompletions(); });
    start(*at, slot, [at] { return at->RunHost(); });
  }
  clock.RemoveThread();
  return threads;
}

// Recording cost, graph launches and peak memory of all ranks of a run.
RunSummary SummaryOf(const std::vector<std::unique_ptr<RankRun>>& ranks) {
  RunSummary summary;
  for (const auto& rank : ranks) {
    const RecordingCost cost = rank->recorder().Cost();
    summary.recording.recording_ns += cost.recording_ns;
    summary.recording.thread_ns += cost.thread_ns;
    summary.recording.spans += cost.spans;
    summary.graphs.Add(rank->Graphs());
    summary.peak_bytes.push_back(rank->ledger().Peak(Space::kDevice));
    auto& peaks = summary.peak_by_space.emplace_back();
    for (std::size_t space = 0; space < peaks.size(); ++space) {
      peaks[space] = rank->ledger().Peak(static_cast<Space>(space));
    }
  }
  return summary;
}

}  // namespace

Executor::Executor(std::shared_ptr<State> state) : state_(std::move(state)) {}
Executor::~Executor() = default;

Result<std::unique_ptr<Executor>> Executor::Make(std::shared_ptr<const Program> program,
                                                 const FtDeviceApi& api, RunClock& clock,
                                                 ExecutorOptions options) {
  return MakeWith(nullptr, std::move(program), api, clock, std::move(options));
}

Result<std::unique_ptr<Executor>> Executor::MakeIn(Executor& owner,
                                                   std::shared_ptr<const Program> program,
                                                   const FtDeviceApi& api, RunClock& clock,
                                                   ExecutorOptions options) {
  return MakeWith(&owner, std::move(program), api, clock, std::move(options));
}

// Checks come before allocations, cheapest first, so that an impossible program fails at once.
Result<std::unique_ptr<Executor>> Executor::MakeWith(Executor* owner,
                                                     std::shared_ptr<const Program> program,
                                                     const FtDeviceApi& api, RunClock& clock,
                                                     ExecutorOptions options) {
  FT_CHECK(options.timeout_ns > 0 && options.run_ahead >= 1);
  FT_TRY(CheckProgram(*program, api));
  if (options.graphs && api.graph_launch == nullptr) {
    return Fail(ErrorCode::kUnsupported,
                std::string(api.name) + ": this device has no graphs; leave --cuda-graphs out");
  }
  if (options.local.empty()) options.local = AllOn(*program, options.device);
  FT_ASSIGN(const std::vector<int> places, PlacesOf(*program, options.local));
  FT_TRY(CheckDevices(options));
  if (owner == nullptr) {
    FT_TRY(CheckMemory(*program, api, options.local, options.budget_bytes));
  }
  const int world = WorldOf(*program);
  auto state = std::make_shared<State>(owner == nullptr ? nullptr : owner->state_,
                                       std::move(program), api, clock, std::move(options), world);
  const std::vector<LocalRank>& local = state->shared.options.local;
  state->next_step = state->shared.options.first_step;
  if (const int share = state->shared.options.sm_share; share > 0) {
    FT_ASSIGN(state->shared.shares,
              DeviceShares::Make(api, local.front().device, static_cast<int>(local.size()), share));
  }
  state->slots = SlotsOf(*state->shared.program, UsableCores());
  FT_TRY(state->MakeWorld());
  for (std::size_t i = 0; i < places.size(); ++i) {
    auto rank = RankRun::Make(state->shared, places[i], static_cast<int>(i),
                              state->World().Rank(local[i].rank),
                              owner == nullptr ? nullptr : &owner->Arena(static_cast<int>(i)));
    if (!rank.has_value()) {
      Error error = std::move(rank).error();
      const std::string name = "rank " + std::to_string(local[i].rank);
      if (!error.message.starts_with(name)) error.message = name + ": " + error.message;
      return tl::unexpected<Error>(std::move(error));
    }
    state->ranks.push_back(*std::move(rank));
  }
  return std::unique_ptr<Executor>(new Executor(std::move(state)));
}

// All threads are joined before Run returns, unless one hangs (see JoinAll).
Result<RunSummary> Executor::Run(std::int64_t steps, BatchSource& batches, RunSink& sink,
                                 std::function<bool()> stop) {
  State& state = *state_;
  if (state.shared.control.Aborted()) {
    return tl::unexpected<Error>(state.shared.control.AbortedError());
  }
  const RunClock& clock = state.shared.clock;
  auto call =
      std::shared_ptr<RunCall>(new RunCall{state.next_step,
                                           steps,
                                           &batches,
                                           &sink,
                                           {steps, std::move(stop), state.shared.options.agreement,
                                            state.next_step - state.shared.options.first_step}});
  const std::int64_t start_ns = clock.Now();
  FT_TRY(RunCalled(call));
  if (const std::int64_t step = call->not_finite_step; step >= 0) {
    return tl::unexpected<Error>(NotFinite(step, batches));
  }
  RunSummary summary = SummaryOf(state.ranks);
  summary.steps = call->limit.begun();
  summary.stopped = call->limit.stopped();
  summary.seconds = SecondsFromNs(clock.Now() - start_ns);
  state.next_step += summary.steps;
  return summary;
}

// Runs the threads of a call to their end.
Result<void> Executor::RunCalled(const std::shared_ptr<RunCall>& call) {
  State& state = *state_;
  (state.world != nullptr ? state : *state.memory).in_turn = state.shared.program.get();
  for (const auto& rank : state.ranks) rank->Begin(*call);
  std::vector<std::thread> threads = StartThreads(state_, call);
  const bool joined = JoinAll(state, threads);
  if (joined) {
    for (const auto& rank : state.ranks) rank->Drain();
  }

  rank_errors_.clear();
  for (const auto& rank : state.ranks) rank_errors_.push_back(rank->error());
  auto error = state.shared.control.FirstError();
  if (!error) return {};
  if (!joined) error->message += "; threads that did not return were left behind";
  return tl::unexpected<Error>(*std::move(error));
}

// Runs the step again, from the same parameters and data, and names the op whose output is the
// first that is not finite. The run is over either way.
Error Executor::NotFinite(std::int64_t step, BatchSource& batches) {
  RunSink unrecorded;
  auto again = std::shared_ptr<RunCall>(
      new RunCall{step, 1, &batches, &unrecorded, {1, nullptr, nullptr, 0}, /*searches=*/true});
  const auto run = RunCalled(again);
  const std::string kept = "; the parameters are those before this step";
  Error error{ErrorCode::kNotFinite,
              "step " + std::to_string(step) +
                  ": the gradient was not finite, but is when the step runs again: a fault of the "
                  "machine is likely (check its memory and temperature)"};
  if (!run.has_value()) {
    error = run.error();
    if (error.code == ErrorCode::kNotFinite) error.message += kept;
  }
  state_->shared.control.Fail(-1, error);
  return error;
}

const Program& Executor::program() const { return *state_->shared.program; }
int Executor::ranks() const { return static_cast<int>(state_->ranks.size()); }
std::int64_t Executor::next_step() const { return state_->next_step; }

const RankProgram& Executor::Rank(int place) const {
  return state_->ranks[static_cast<std::size_t>(place)]->program();
}

RankArena& Executor::Arena(int place) {
  return state_->ranks[static_cast<std::size_t>(place)]->arena();
}

std::string Executor::FlightText() const {
  std::string text;
  for (const auto& rank : state_->ranks) {
    for (const FlightRecord& record : state_->shared.flight.Ring(rank->rank())) {
      text += "rank " + std::to_string(rank->rank()) + ": " +
              FormatSeconds(SecondsFromNs(record.time_ns)) + " " + std::string(Name(record.queue)) +
              " " + rank->TextOf(record.op) + " (step " + std::to_string(record.step) + ")\n";
    }
  }
  return text;
}

}  // namespace foretrain
