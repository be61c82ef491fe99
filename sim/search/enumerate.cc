#include "sim/search/enumerate.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/units.h"

namespace foretrain {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kMostOnFront = 64;

bool IsFaster(const Candidate& a, const Candidate& b) {
  return a.estimate.step_s < b.estimate.step_s;
}

// The fastest so far; those of equal times in the order in which they came.
void KeepFastest(const Candidate& candidate, std::size_t most, std::vector<Candidate>& kept) {
  if (kept.size() == most && !IsFaster(candidate, kept.back())) return;
  kept.insert(std::upper_bound(kept.begin(), kept.end(), candidate, IsFaster), candidate);
  if (kept.size() > most) kept.pop_back();
}

// No plan of the front is both as fast and as small as another.
void KeepOnFront(const Candidate& candidate, std::vector<Candidate>& front) {
  const auto at = std::upper_bound(front.begin(), front.end(), candidate, IsFaster);
  const std::int64_t bytes = candidate.estimate.memory_bytes;
  if (at != front.begin() && (at - 1)->estimate.memory_bytes <= bytes) return;
  const auto first = front.insert(at, candidate);
  const auto beaten = std::find_if(first + 1, front.end(), [&](const Candidate& other) {
    return other.estimate.memory_bytes < bytes;
  });
  front.erase(first + 1, beaten);
}

// Plans whose memory is known before those that end at their state, then the smaller.
void KeepSmallest(const Candidate& candidate, bool complete, std::optional<Candidate>& smallest,
                  bool& smallest_is_complete) {
  if (smallest && smallest_is_complete && !complete) return;
  const bool first = !smallest || (complete && !smallest_is_complete);
  if (!first && candidate.estimate.memory_bytes >= smallest->estimate.memory_bytes) return;
  smallest = candidate;
  smallest_is_complete = complete;
}

class Worker {
 public:
  Worker(const ModelSpec& model, const CostModel& costs, const SpaceWalk& walk,
         const EnumerateOptions& options, const std::atomic<bool>& stop,
         std::atomic<std::int64_t>& evaluated)
      : evaluator_(model, costs, walk.varying()),
        walk_(walk),
        options_(options),
        stop_(stop),
        evaluated_(evaluated) {
    limits_ = {options.memory_bytes,
               [this](const Evaluation& estimate) { return IsHopeless(estimate); }};
  }

  // Parts one after the other: what the first ones have found ends evaluations of the others.
  Enumeration Unit(const std::vector<std::size_t>& parts, std::atomic<std::size_t>& done) {
    out_ = {};
    refused_ = smallest_is_complete_ = false;
    out_.bound_s = kNever;
    for (const std::size_t part : parts) {
      const std::int64_t before = out_.evaluated;
      walk_.VisitPart(
          part, [this](const Plan& plan) { return Visit(plan); },
          [this] { return stop_.load(std::memory_order_relaxed); }, out_.rejected);
      evaluated_ += out_.evaluated - before;
      ++done;
    }
    return std::move(out_);
  }

 private:
  bool Visit(const Plan& plan) {
    Candidate candidate{plan, {}};
    Evaluation& estimate = candidate.estimate;
    const Evaluator::Reached reached = evaluator_.Evaluate(plan, limits_, estimate);
    if (reached == Evaluator::Reached::kState || reached == Evaluator::Reached::kMemory) {
      RefuseMemory(candidate, reached == Evaluator::Reached::kMemory);
      return false;
    }
    if (options_.host_bytes > 0 && estimate.host_bytes > options_.host_bytes) {
      out_.rejected.Add(kNeedsHostMemory, 1, "");
      return false;
    }
    out_.bound_s = std::min(out_.bound_s, estimate.bound_s);
    if (reached == Evaluator::Reached::kBound) {
      out_.rejected.Add(kIsSlower, 1, "");
      return true;
    }
    ++out_.evaluated;
    KeepFastest(candidate, options_.kept, out_.fastest);
    KeepOnFront(candidate, out_.front);
    return true;
  }
  // Whether others that are no larger are faster than the plan can be.
  bool IsHopeless(const Evaluation& estimate) const {
    if (out_.fastest.size() < options_.kept) return false;
    if (out_.fastest.back().estimate.step_s > estimate.least_s) return false;
    return std::any_of(out_.front.begin(), out_.front.end(), [&](const Candidate& other) {
      return other.estimate.memory_bytes <= estimate.memory_bytes &&
             other.estimate.step_s <= estimate.least_s;
    });
  }
  // `complete`: its memory is known, not its state alone.
  void RefuseMemory(const Candidate& candidate, bool complete) {
    const std::int64_t bytes = candidate.estimate.memory_bytes;
    KeepSmallest(candidate, complete, out_.smallest, smallest_is_complete_);
    // The first is told as example.
    const bool is_first = !refused_;
    refused_ = true;
    out_.rejected.Add(kNeedsMemory, 1, is_first ? Needs(candidate.plan, bytes) : "");
  }
  std::string Needs(const Plan& plan, std::int64_t bytes) const {
    return Describe(plan) + " needs " + FormatBytes(bytes) + " of " +
           FormatBytes(options_.memory_bytes);
  }

  Evaluator evaluator_;
  const SpaceWalk& walk_;
  const EnumerateOptions& options_;
  const std::atomic<bool>& stop_;
  std::atomic<std::int64_t>& evaluated_;
  Evaluator::Limits limits_;
  Enumeration out_;
  bool refused_ = false;
  bool smallest_is_complete_ = false;
};

// Of a front of any length some, the ends included.
void ThinOut(std::vector<Candidate>& front) {
  if (front.size() <= kMostOnFront) return;
  std::vector<Candidate> some;
  for (std::size_t i = 0; i < kMostOnFront; ++i) {
    some.push_back(front[i * (front.size() - 1) / (kMostOnFront - 1)]);
  }
  front = std::move(some);
}

Enumeration Merge(const std::vector<Enumeration>& units, std::size_t kept) {
  Enumeration out;
  out.bound_s = kNever;
  bool complete = false;
  for (const Enumeration& part : units) {
    out.evaluated += part.evaluated;
    out.rejected.Add(part.rejected);
    out.bound_s = std::min(out.bound_s, part.bound_s);
    for (const Candidate& candidate : part.fastest) KeepFastest(candidate, kept, out.fastest);
    for (const Candidate& candidate : part.front) KeepOnFront(candidate, out.front);
    if (part.smallest) {
      // What a plan holds beside its state is known of complete ones alone.
      const MemoryParts& memory = part.smallest->estimate.memory;
      KeepSmallest(*part.smallest, memory.transient > 0, out.smallest, complete);
    }
  }
  if (out.bound_s == kNever) out.bound_s = 0;
  ThinOut(out.front);
  return out;
}

}  // namespace

Result<Enumeration> EnumeratePlans(const ModelSpec& model, const CostModel& costs,
                                   const SpaceWalk& walk, const EnumerateOptions& options) {
  const std::vector<std::vector<std::size_t>> units = walk.Units();
  std::vector<Enumeration> found(units.size());
  std::atomic<std::size_t> next{0}, done{0};
  std::atomic<std::int64_t> evaluated{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::string failure;  // guarded by mutex
  const auto work = [&] {
    Worker worker(model, costs, walk, options, stop, evaluated);
    for (std::size_t unit = next++; unit < units.size() && !stop; unit = next++) {
      found[unit] = worker.Unit(units[unit], done);
    }
  };
  const auto guarded = [&] {
    try {
      work();
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex);
      failure = error.what();
      stop = true;
    }
  };
  {
    std::atomic<int> running{options.threads};
    std::vector<std::jthread> threads;
    for (int i = 0; i < options.threads; ++i) {
      threads.emplace_back([&] {
        guarded();
        --running;
      });
    }
    while (running > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (options.cancelled && options.cancelled()) stop = true;
      if (options.progress) {
        options.progress(static_cast<double>(done) /
                             static_cast<double>(std::max<std::size_t>(1, walk.parts())),
                         evaluated);
      }
    }
  }
  if (!failure.empty()) return Fail(ErrorCode::kResourceExhausted, "the search failed: " + failure);
  if (stop) return Fail(ErrorCode::kAborted, "the search was cancelled");
  return Merge(found, options.kept);
}

}  // namespace foretrain
