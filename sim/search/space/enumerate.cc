// Longer than 400 lines: limits, workers and merging share their state and are one idea.
#include "sim/search/space/enumerate.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/parallel.h"
#include "base/units.h"
#include "sim/search/space/layouts.h"
#include "sim/search/space/rank_orders.h"

namespace foretrain {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kMaxOnFront = 64;

constexpr std::size_t kOfLayout = 16;  // kept of one layout, so that others are kept too

bool IsFaster(const Candidate& a, const Candidate& b) {
  return a.estimate.step_s < b.estimate.step_s;
}

// Inserts the candidate if it is among the fastest `max` and among the fastest kOfLayout of its
// layout; among equals the earlier one stays first. A plan that leaves has `max` faster ones, or
// kOfLayout of its layout, whatever comes later: lists merge in any grouping to the same result.
void KeepFastest(const Candidate& candidate, std::size_t max, std::vector<Candidate>& kept) {
  if (kept.size() == max && !IsFaster(candidate, kept.back())) return;
  std::size_t alike = 0, slowest = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (!HasSameLayout(kept[i].plan, candidate.plan)) continue;
    ++alike;
    slowest = i;
  }
  if (alike >= kOfLayout) {
    if (!IsFaster(candidate, kept[slowest])) return;
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(slowest));
  }
  kept.insert(std::upper_bound(kept.begin(), kept.end(), candidate, IsFaster), candidate);
  if (kept.size() > max) kept.pop_back();
}

// Whether some plan is no larger than `bytes` and takes less than `seconds`.
bool SomeBeats(const std::vector<Candidate>& some, double seconds, std::int64_t bytes) {
  return std::any_of(some.begin(), some.end(), [&](const Candidate& one) {
    return one.estimate.memory_bytes <= bytes && one.estimate.step_s < seconds;
  });
}

// Inserts the candidate unless a plan of the front is as fast and as small, and removes those that
// it beats.
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

// Prefers plans whose memory is fully known over those known only by their state, then the smaller.
void KeepSmallest(const Candidate& candidate, bool complete, std::optional<Candidate>& smallest,
                  bool& smallest_is_complete) {
  if (smallest && smallest_is_complete && !complete) return;
  const bool first = !smallest || (complete && !smallest_is_complete);
  if (!first && candidate.estimate.memory_bytes >= smallest->estimate.memory_bytes) return;
  smallest = candidate;
  smallest_is_complete = complete;
}

// Results so far that allow evaluations of worse plans to end early.
struct Rivals {
  std::vector<Candidate> fastest;  // at most `kept` of them, without duplicates
  std::vector<Candidate> front;
  double bound_s = kNever;  // minimum over the plans evaluated
};

// A unit uses the results of units at least this far before it. So this many units can run in
// parallel, and the result does not depend on the number of threads.
constexpr std::size_t kUnitsApart = 6;

// The results of all units, and for each n the merged results of the first n units.
class Found {
 public:
  Found(std::size_t units, std::size_t kept) : kept_(kept), all_(units), done_(units), first_(1) {}
  // Merged results of the units at least kUnitsApart before this one; blocks until they are done.
  // Null once `stop` is set.
  const Rivals* Before(std::size_t unit, const std::atomic<bool>& stop) {
    const std::size_t count = unit < kUnitsApart ? 0 : unit + 1 - kUnitsApart;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stop || first_.size() > count; });
    return stop ? nullptr : &first_[count];
  }
  // Stores a unit's result and extends the merged prefix as far as all units are done. Merging in
  // order keeps ties independent of timing.
  void Add(std::size_t unit, Enumeration enumeration) {
    const std::lock_guard lock(mutex_);
    all_[unit] = std::move(enumeration);
    done_[unit] = true;
    for (std::size_t next = first_.size() - 1; next < all_.size() && done_[next]; ++next) {
      Rivals rivals = first_.back();
      for (const Candidate& one : all_[next].fastest) KeepFastest(one, kept_, rivals.fastest);
      for (const Candidate& one : all_[next].front) KeepOnFront(one, rivals.front);
      rivals.bound_s = std::min(rivals.bound_s, all_[next].bound_s);
      first_.push_back(std::move(rivals));
    }
    changed_.notify_all();
  }
  void Wake() {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
  // Only valid once no thread adds results any more.
  const std::vector<Enumeration>& all() const { return all_; }

 private:
  std::size_t kept_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // All guarded by mutex_. Elements of `first_` do not change once they are added.
  std::vector<Enumeration> all_;
  std::vector<bool> done_;
  std::deque<Rivals> first_;
};

// State shared by all threads.
struct Shared {
  const EnumerateOptions& options;
  std::atomic<std::size_t> next{0};   // next unit to take
  std::atomic<std::size_t> done{0};   // parts that are done
  std::atomic<std::size_t> wakes{0};  // counts wake-ups of the calling thread
  std::atomic<std::int64_t> evaluated{0};
  std::atomic<bool> stop{false};
};

// Evaluates the plans of one unit after another on one thread. A limit function ends an evaluation
// as soon as its bound shows that the plan cannot be of use.
class Worker {
 public:
  Worker(const ModelSpec& model, const CostModel& costs, const VaryingFields& varying,
         Shared& shared)
      : evaluator_(model, costs, varying), options_(shared.options), shared_(shared) {
    limits_ = {options_.memory_bytes,
               [this](const Evaluation& estimate) { return IsHopeless(estimate); }};
    family_limits_ = {options_.memory_bytes, [this](const Evaluation& min) {
                        return min.bound_s >= KnownBound() && IsHopeless(min);
                      }};
  }

  // Visits the parts of a unit in turn. Evaluations end early against the results of earlier parts,
  // of the coarse space and of earlier units. With `leaves_out`, whole families of plans may be
  // skipped.
  Enumeration Unit(const SpaceWalk& walk, const Rivals& coarse, const Rivals& before,
                   bool leaves_out, const std::vector<std::size_t>& parts) {
    SpaceWalk::LeavesOut families;
    if (leaves_out) {
      families = [this](const Plan& plan, const PlanFamily& of) { return LeavesOut(plan, of); };
    }
    const int tp = walk.TpOf(parts.front());
    evaluator_.Forget(/*states=*/tp != tp_);
    tp_ = tp;
    out_ = {};
    coarse_ = &coarse;
    before_ = &before;
    refused_ = smallest_is_complete_ = false;
    out_.bound_s = kNever;
    for (const std::size_t part : parts) {
      const std::int64_t so_far = out_.evaluated;
      walk.VisitPart(
          part, [this](const Plan& plan) { return Visit(plan); }, [this] { return Stops(); },
          out_.rejected, families);
      shared_.evaluated += out_.evaluated - so_far;
      ++shared_.done;
      Wake();
    }
    return std::move(out_);
  }

 private:
  // Wakes the calling thread now and then, so that cancelling does not wait for the end of a part.
  bool Stops() {
    constexpr int kOften = 128;
    if (++visited_ % kOften == 0) Wake();
    return shared_.stop.load(std::memory_order_relaxed);
  }
  void Wake() {
    ++shared_.wakes;
    shared_.wakes.notify_one();
  }

  // Evaluates one plan and returns whether it fits. A plan that ends at its bound counts as
  // fitting, since its memory was checked before.
  bool Visit(const Plan& plan) {
    Candidate candidate{plan, {}};
    SetFront(plan);
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
      out_.rejected.Add(WhySlow(estimate), 1, "");
      return true;
    }
    ++out_.evaluated;
    KeepFastest(candidate, options_.kept, out_.fastest);
    if (front_) KeepOnFront(candidate, out_.front);
    return true;
  }
  // Decides on a whole family by its lower bounds. If they exceed the memory limit, or are hopeless
  // and not below the best known bound, the family is skipped.
  SpaceWalk::Reason LeavesOut(const Plan& plan, const PlanFamily& family) {
    SetFront(plan);
    Evaluation min;
    const Evaluator::Reached reached = evaluator_.EvaluateBound(plan, family, family_limits_, min);
    if (reached == Evaluator::Reached::kMemory) {
      const bool is_first = !refused_;
      refused_ = true;
      return {kNeedsMemory, is_first ? Needs(plan, min.memory_bytes) : ""};
    }
    if (reached != Evaluator::Reached::kBound) return {};
    return {WhySlow(min)};
  }
  void SetFront(const Plan& plan) {
    front_ = options_.front && (!options_.may_be_on_front || options_.may_be_on_front(plan));
  }
  double KnownBound() const { return std::min({out_.bound_s, coarse_->bound_s, before_->bound_s}); }
  // Step time of the plan at `place` among the fastest known; infinity if too few are known. The
  // lists may share plans.
  double Reached(std::size_t place) const {
    double min_s = kNever;
    for (const auto* fastest : {&out_.fastest, &coarse_->fastest, &before_->fastest}) {
      if (fastest->size() < options_.kept) continue;
      min_s = std::min(min_s, (*fastest)[place].estimate.step_s);
    }
    return min_s;
  }
  bool IsSlow(const Evaluation& estimate) const { return estimate.min_s > kSlowFront * Reached(0); }
  std::string_view WhySlow(const Evaluation& estimate) const {
    if (IsSlow(estimate)) return kIsMuchSlower;
    return options_.front && !front_ ? kIsBehind : kIsSlower;
  }
  // Whether the plan is too slow to be shown, or plans that are no larger are faster than its lower
  // bound.
  bool IsHopeless(const Evaluation& estimate) const {
    if (Reached(options_.kept - 1) >= estimate.min_s) return false;
    if (!front_ || IsSlow(estimate)) return true;
    for (const auto* rivals : {&out_.fastest, &coarse_->fastest, &before_->fastest, &out_.front,
                               &coarse_->front, &before_->front}) {
      if (SomeBeats(*rivals, estimate.min_s, estimate.memory_bytes)) return true;
    }
    return false;
  }
  // `complete`: all of its memory is known, not only its state.
  void RefuseMemory(const Candidate& candidate, bool complete) {
    const std::int64_t bytes = candidate.estimate.memory_bytes;
    KeepSmallest(candidate, complete, out_.smallest, smallest_is_complete_);
    // The first one serves as example.
    const bool is_first = !refused_;
    refused_ = true;
    out_.rejected.Add(kNeedsMemory, 1, is_first ? Needs(candidate.plan, bytes) : "");
  }
  std::string Needs(const Plan& plan, std::int64_t bytes) const {
    return Describe(plan) + " needs " + FormatBytes(bytes) + " of " +
           FormatBytes(options_.memory_bytes);
  }

  Evaluator evaluator_;
  const EnumerateOptions& options_;
  Shared& shared_;
  const Rivals* coarse_ = nullptr;
  const Rivals* before_ = nullptr;
  Evaluator::Limits limits_, family_limits_;
  Enumeration out_;
  bool front_ = true;  // the current plan may be on the front
  bool refused_ = false;
  bool smallest_is_complete_ = false;
  int tp_ = 0;  // of the previous unit
  std::int64_t visited_ = 0;
};

// Keeps at most kMaxOnFront plans of a front, evenly spread and with both ends.
void ThinOut(std::vector<Candidate>& front) {
  if (front.size() <= kMaxOnFront) return;
  std::vector<Candidate> some;
  for (std::size_t i = 0; i < kMaxOnFront; ++i) {
    some.push_back(front[i * (front.size() - 1) / (kMaxOnFront - 1)]);
  }
  front = std::move(some);
}

// Merges the units in order, so that ties between equal plans resolve as in a sequential walk.
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
      // Only complete plans have transient memory.
      const MemoryParts& memory = part.smallest->estimate.memory;
      KeepSmallest(*part.smallest, memory.transient > 0, out.smallest, complete);
    }
  }
  if (out.bound_s == kNever) out.bound_s = 0;
  // Plans that may not be on the front still hide slower and larger ones.
  std::erase_if(out.front, [&](const Candidate& one) {
    return SomeBeats(out.fastest, one.estimate.step_s, one.estimate.memory_bytes);
  });
  ThinOut(out.front);
  return out;
}

// Units of the tp with the fastest known plans come first, so that their results end more
// evaluations. Units of one tp stay together and share state tables.
void BringForward(const SpaceWalk& walk, const Rivals& rivals,
                  std::vector<std::vector<std::size_t>>& units) {
  const auto place = [&](const std::vector<std::size_t>& unit) {
    const int tp = walk.TpOf(unit.front());
    const auto& known = rivals.fastest;
    return std::find_if(known.begin(), known.end(),
                        [tp](const Candidate& one) { return one.plan.tp == tp; }) -
           known.begin();
  };
  std::stable_sort(units.begin(), units.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
}

// Runs the workers over the units of a space. The calling thread only reports progress and polls
// for cancellation: callbacks never run on workers.
class Enumerator {
 public:
  Enumerator(const ModelSpec& model, const CostModel& costs, const VaryingFields& varying,
             const EnumerateOptions& options)
      : shared_{options} {
    for (int i = 0; i < options.threads; ++i) {
      workers_.push_back(std::make_unique<Worker>(model, costs, varying, shared_));
    }
  }

  // Visits all parts of `walk`. `tells`: reports progress. `leaves_out`: may skip whole families.
  Result<Enumeration> Walk(const SpaceWalk& walk, const Rivals& rivals, bool tells,
                           bool leaves_out) {
    std::vector<std::vector<std::size_t>> units = walk.Units();
    BringForward(walk, rivals, units);
    Found found(units.size(), shared_.options.kept);
    shared_.next = shared_.done = 0;
    shared_.evaluated = 0;
    {
      std::atomic<std::size_t> running{workers_.size()};
      std::vector<std::jthread> threads;
      for (const std::unique_ptr<Worker>& worker : workers_) {
        const auto work = [&] {
          Work(*worker, walk, rivals, leaves_out, units, found);
          --running;
          ++shared_.wakes;
          shared_.wakes.notify_one();
        };
        // Without more threads, those that run take all units, or this one does.
        if (TryThread(threads, work)) continue;
        if (!threads.empty()) {
          --running;
        } else {
          work();
        }
      }
      // Sleeps until a worker makes progress or ends.
      for (std::size_t seen = shared_.wakes; running > 0; seen = shared_.wakes) {
        shared_.wakes.wait(seen);
        Tell(walk, tells);
      }
    }
    if (!failure_.empty()) {
      return Fail(ErrorCode::kResourceExhausted, "the search failed: " + failure_);
    }
    if (shared_.stop) return Fail(ErrorCode::kAborted, "the search was cancelled");
    return Merge(found.all(), shared_.options.kept);
  }

 private:
  // Takes the next unit until none is left. An exception, such as lack of memory, stops all threads
  // and becomes the search's error.
  void Work(Worker& worker, const SpaceWalk& walk, const Rivals& rivals, bool leaves_out,
            const std::vector<std::vector<std::size_t>>& units, Found& found) {
    try {
      for (std::size_t unit = shared_.next++; unit < units.size() && !shared_.stop;
           unit = shared_.next++) {
        const Rivals* before = found.Before(unit, shared_.stop);
        if (before == nullptr) return;
        found.Add(unit, worker.Unit(walk, rivals, *before, leaves_out, units[unit]));
      }
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      failure_ = error.what();
      shared_.stop = true;
    }
    if (shared_.stop) found.Wake();
  }

  void Tell(const SpaceWalk& walk, bool tells) {
    const EnumerateOptions& options = shared_.options;
    if (options.cancelled && options.cancelled()) shared_.stop = true;
    if (!tells || !options.progress) return;
    const auto parts = static_cast<double>(std::max<std::size_t>(1, walk.parts()));
    options.progress(std::min(1.0, static_cast<double>(shared_.done) / parts), shared_.evaluated);
  }

  Shared shared_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::mutex mutex_;
  std::string failure_;  // guarded by mutex_
};

}  // namespace

// Walks a small coarse space first: its best plans give limits that end most evaluations of the
// full walk early. Their bounds are real plans' bounds, so no plan is lost.
Result<Enumeration> EnumeratePlans(const ModelSpec& model, const CostModel& costs,
                                   const SearchSpace& space, int ranks,
                                   const EnumerateOptions& options) {
  const auto order_of = [&](const Plan& plan) {
    return LikelyRankOrder(model, costs, plan, space.rank_orders);
  };
  const SpaceWalk walk(model, space, ranks, order_of);
  const SearchSpace coarse = CoarseSpace(space);
  const SpaceWalk first(model, coarse, ranks, order_of);
  Enumerator enumerator(model, costs, walk.varying(), options);
  Rivals rivals;
  if (first.size() < walk.size()) {
    FT_ASSIGN(Enumeration some, enumerator.Walk(first, {}, /*tells=*/false, /*leaves_out=*/true));
    const double bound_s = some.fastest.empty() ? kNever : some.bound_s;
    rivals = {std::move(some.fastest), std::move(some.front), bound_s};
  }
  FT_ASSIGN(Enumeration found, enumerator.Walk(walk, rivals, /*tells=*/true, /*leaves_out=*/true));
  found.bound_s = std::min(found.bound_s, rivals.bound_s);
  // If nothing fits, the smallest plan is wanted, which may be in a family that was skipped: walk
  // again without skipping.
  if (!found.fastest.empty() || !options.smallest) return found;
  return enumerator.Walk(walk, rivals, /*tells=*/true, /*leaves_out=*/false);
}

}  // namespace foretrain
