#include "traces/import/memory/snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/embedded.h"
#include "base/pickle/pickle.h"
#include "base/text.h"
#include "traces/embedded_data.h"

namespace foretrain::trace_import {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{1} << 56;
constexpr std::int64_t kMaxMicroseconds = std::int64_t{1} << 52;
constexpr std::size_t kMaxDevices = 1 << 15;
constexpr std::size_t kMaxFrames = 512;  // of a stack that are looked at
constexpr std::size_t kMaxHeld = 200;    // stacks at the peak that are kept
constexpr std::int64_t kNsPerUs = 1000;

struct FrameRow {
  std::string text;
  Category category = Category::kWorkspace;
};

std::vector<FrameRow> FrameRows() {
  std::vector<FrameRow> rows;
  const EmbeddedFile* file =
      FindEmbedded(traces_data::Files(), "traces/import/memory/memory_frames.csv");
  FT_CHECK(file != nullptr);
  bool titles = true;
  for (const std::string_view line : Split(file->text, '\n')) {
    if (line.empty() || line.starts_with('#')) continue;
    if (std::exchange(titles, false)) continue;
    const std::vector<std::string_view> cells = Split(line, ',');
    const auto category = ParseCategory(cells.back());
    FT_CHECK(cells.size() == 2 && category.has_value());
    rows.push_back({std::string(cells.front()), *category});
  }
  return rows;
}

// Names that PyTorch's memory profile gives, besides our own.
std::optional<Category> CategoryOf(std::string_view name) {
  constexpr std::pair<std::string_view, Category> kNames[] = {
      {"parameter", Category::kParameters},   {"gradient", Category::kGradients},
      {"activation", Category::kActivations}, {"input", Category::kStaging},
      {"temporary", Category::kWorkspace},    {"autograd_detail", Category::kActivations},
  };
  for (const auto& [known, category] : kNames) {
    if (known == name) return category;
  }
  return ParseCategory(name);
}

// The purpose of an allocation, and the number of its frame's text.
struct Origin {
  Category category = Category::kWorkspace;
  std::uint32_t frame = 0;
};

// Tells origins from stacks. Stacks are shared in a pickle, so each is looked at once.
class Origins {
 public:
  explicit Origins(const PickleTree& tree) : tree_(tree), rows_(FrameRows()) {}

  // The origin of an event or block.
  Origin Of(PickleIndex record) {
    const PickleIndex stack = tree_.Find(record, "frames");
    auto [at, is_new] = known_.try_emplace(stack);
    if (is_new) at->second = OfStack(stack);
    Origin origin = at->second;
    const auto told = CategoryOf(tree_.Text(tree_.Find(record, "category")));
    if (told) origin.category = *told;
    return origin;
  }

  const std::string& Frame(std::uint32_t number) const { return texts_.Text(number); }

 private:
  Origin OfStack(PickleIndex stack) {
    std::span<const PickleIndex> frames = tree_.Items(stack);
    frames = frames.first(std::min(frames.size(), kMaxFrames));
    std::vector<std::string> keys;
    std::string shown;
    bool is_own = false;  // of a file of the training, not of a library
    for (const PickleIndex frame : frames) {
      const std::string_view file = tree_.Text(tree_.Find(frame, "filename"));
      const std::string_view name = tree_.Text(tree_.Find(frame, "name"));
      keys.push_back(ToLower(std::string(file) + ":" + std::string(name)));
      const bool library = !file.ends_with(".py") || file.find("/torch/") != std::string_view::npos;
      if (is_own || (library && !shown.empty())) continue;
      is_own = !library;
      const std::size_t slash = file.rfind('/');
      const std::int64_t line = tree_.Integer(tree_.Find(frame, "line"));
      shown = slash == std::string_view::npos ? file : file.substr(slash + 1);
      // PyTorch's memory profile has the place in the name, and "none" as file.
      shown = line == 0 && shown == "none" ? std::string(name)
                                           : fmt::format("{}:{} {}", shown, line, name);
    }
    Origin origin{.frame = texts_.Of(Printable(shown, 200))};
    const auto row = std::find_if(rows_.begin(), rows_.end(), [&](const FrameRow& of) {
      return std::any_of(keys.begin(), keys.end(), [&](const std::string& key) {
        return key.find(of.text) != std::string::npos;
      });
    });
    if (row != rows_.end()) origin.category = row->category;
    return origin;
  }

  const PickleTree& tree_;
  const std::vector<FrameRow> rows_;
  NameTable texts_;
  std::unordered_map<PickleIndex, Origin> known_;
};

struct Allocation {
  std::int64_t bytes = 0;
  Origin origin{};
};

struct Event {
  enum class Kind { kAlloc, kFree } kind = Kind::kAlloc;
  std::int64_t time_ns = 0;
  std::int64_t address = 0;
  Allocation allocation{};
};

// The events of one device, in order, and what was live before the first of them.
class Device {
 public:
  Device(const PickleTree& tree, Origins& origins) : tree_(tree), origins_(origins) {}

  // Reads a device's trace. Entries that are no allocation or free of a possible size are skipped.
  void Read(PickleIndex trace) {
    const std::span<const PickleIndex> entries = tree_.Items(trace);
    const auto is = [this](PickleIndex entry, std::string_view action) {
      return tree_.Text(tree_.Find(entry, "action")) == action;
    };
    // Memory can be used again after free_completed. Recordings may leave it out.
    const bool completes = std::any_of(entries.begin(), entries.end(), [&](PickleIndex entry) {
      return is(entry, "free_completed");
    });
    const char* const free_name = completes ? "free_completed" : "free_requested";
    std::int64_t number = 0;
    for (const PickleIndex entry : entries) {
      ++number;
      const bool alloc = is(entry, "alloc");
      if (!alloc && !is(entry, free_name)) continue;
      Event event{.kind = alloc ? Event::Kind::kAlloc : Event::Kind::kFree};
      const PickleIndex time = tree_.Find(entry, "time_us");
      has_times_ = has_times_ && tree_.kind(time) == PickleTree::Kind::kInteger;
      const std::int64_t time_us = has_times_ ? tree_.Integer(time) : number;
      event.address = tree_.Integer(tree_.Find(entry, "addr"));
      event.allocation.bytes = tree_.Integer(tree_.Find(entry, "size"), -1);
      if (event.allocation.bytes < 0 || event.allocation.bytes > kMaxBytes || time_us < 0 ||
          time_us > kMaxMicroseconds) {
        ++invalid_;
        continue;
      }
      event.time_ns = time_us * kNsPerUs;
      event.allocation.origin = origins_.Of(entry);
      events_.push_back(event);
    }
    // Times come from several threads; entries stand in the order of the allocator's lock.
    for (std::size_t i = 1; i < events_.size(); ++i) {
      events_[i].time_ns = std::max(events_[i].time_ns, events_[i - 1].time_ns);
    }
  }

  void AddBlock(std::int64_t address, const Allocation& block) { blocks_[address] = block; }

  bool IsEmpty() const { return events_.empty() && blocks_.empty(); }
  bool has_times() const { return has_times_; }

  // Memory samples and the stacks at the peak.
  void Write(RankEvents& out) {
    FindEarlier();
    out.invalid += invalid_;
    const std::size_t peak = Play(out.memory, SIZE_MAX);
    std::vector<MemorySample> none;
    Play(none, peak);
    out.held = Held();
  }

 private:
  // Finds allocations older than the first event: memory that is freed without having been
  // allocated, and blocks that are live in the end without having been allocated.
  void FindEarlier() {
    std::map<std::int64_t, bool> live;  // by address, whether the trace saw it allocated
    for (const Event& event : events_) {
      if (event.kind == Event::Kind::kAlloc) {
        live[event.address] = true;
      } else if (live.erase(event.address) == 0 && !freed_.contains(event.address)) {
        earlier_[event.address] = event.allocation;
      }
      // Once an address was used, a second free of it is a mistake of the file.
      freed_.insert(event.address);
    }
    for (const auto& [address, block] : blocks_) {
      if (!live.contains(address) && !freed_.contains(address)) earlier_[address] = block;
    }
  }

  // Plays the events up to number `last` and leaves what is live then. Returns the event after
  // which most memory is live; 0 is the state before the first.
  std::size_t Play(std::vector<MemorySample>& samples, std::size_t last) {
    live_ = earlier_;
    std::array<std::int64_t, kCategoryCount> bytes{};
    std::int64_t total = 0;
    for (const auto& [address, of] : live_) Change(of, of.bytes, bytes, total);
    const std::int64_t start_ns = events_.empty() ? 0 : events_.front().time_ns;
    for (int i = 0; i < kCategoryCount; ++i) {
      const std::int64_t now = bytes[static_cast<std::size_t>(i)];
      if (now > 0) {
        samples.push_back(
            {.time_ns = start_ns, .bytes = now, .category = static_cast<Category>(i)});
      }
    }
    std::size_t peak = 0;
    std::int64_t most = total;
    for (std::size_t i = 0; i < events_.size() && i < last; ++i) {
      const Event& event = events_[i];
      const auto was = live_.find(event.address);
      std::optional<Category> changed;
      const auto change = [&](const Allocation& of, std::int64_t by) {
        Change(of, by, bytes, total);
        // The other category's sample goes first.
        if (changed && *changed != of.origin.category) AddSample(event, *changed, bytes, samples);
        changed = of.origin.category;
      };
      if (was != live_.end()) {
        change(was->second, -was->second.bytes);
        live_.erase(was);
      }
      if (event.kind == Event::Kind::kAlloc) {
        change(event.allocation, event.allocation.bytes);
        live_[event.address] = event.allocation;
      }
      if (changed) AddSample(event, *changed, bytes, samples);
      if (total > most) {
        most = total;
        peak = i + 1;
      }
    }
    return peak;
  }

  static void Change(const Allocation& of, std::int64_t by,
                     std::array<std::int64_t, kCategoryCount>& bytes, std::int64_t& total) {
    bytes[static_cast<std::size_t>(of.origin.category)] += by;
    total += by;
  }

  static void AddSample(const Event& event, Category category,
                        const std::array<std::int64_t, kCategoryCount>& bytes,
                        std::vector<MemorySample>& samples) {
    const std::int64_t now = bytes[static_cast<std::size_t>(category)];
    samples.push_back(
        {.time_ns = event.time_ns, .bytes = std::min(now, kMaxBytes), .category = category});
  }

  std::vector<HeldMemory> Held() const {
    std::map<std::pair<std::uint32_t, Category>, HeldMemory> sums;
    for (const auto& [address, of] : live_) {
      HeldMemory& held = sums[{of.origin.frame, of.origin.category}];
      held.frame = origins_.Frame(of.origin.frame);
      held.category = of.origin.category;
      held.bytes += of.bytes;
      ++held.allocations;
    }
    std::vector<HeldMemory> sorted;
    for (auto& [key, held] : sums) sorted.push_back(std::move(held));
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const HeldMemory& a, const HeldMemory& b) { return a.bytes > b.bytes; });
    if (sorted.size() > kMaxHeld) sorted.resize(kMaxHeld);
    return sorted;
  }

  const PickleTree& tree_;
  Origins& origins_;
  std::vector<Event> events_;
  std::map<std::int64_t, Allocation> blocks_;   // live in the end, by address
  std::map<std::int64_t, Allocation> earlier_;  // live before the first event
  std::map<std::int64_t, Allocation> live_;     // while events are played
  std::set<std::int64_t> freed_;                // addresses that events name
  std::int64_t invalid_ = 0;
  bool has_times_ = true;
};

// Active blocks of the segments. A block without an address follows the one before it.
void ReadSegments(const PickleTree& tree, PickleIndex segments, Origins& origins,
                  std::map<std::int64_t, Device>& devices) {
  for (const PickleIndex segment : tree.Items(segments)) {
    const std::int64_t number = tree.Integer(tree.Find(segment, "device"));
    if (number < 0 || number >= static_cast<std::int64_t>(kMaxDevices)) continue;
    std::int64_t next = tree.Integer(tree.Find(segment, "address"));
    for (const PickleIndex block : tree.Items(tree.Find(segment, "blocks"))) {
      const std::int64_t size = tree.Integer(tree.Find(block, "size"), -1);
      if (size < 0 || size > kMaxBytes) continue;
      const std::int64_t address = tree.Integer(tree.Find(block, "address"), next);
      next = static_cast<std::int64_t>(static_cast<std::uint64_t>(address) +
                                       static_cast<std::uint64_t>(size));
      if (!tree.Text(tree.Find(block, "state")).starts_with("active")) continue;
      devices.try_emplace(number, tree, origins)
          .first->second.AddBlock(address, {size, origins.Of(block)});
    }
  }
}

// Annotations are pairs of a start and an end with the same name.
void ReadAnnotations(const PickleTree& tree, std::int64_t device, RankEvents& out) {
  std::map<std::string, std::int64_t> begun;
  for (const PickleIndex entry : tree.Items(tree.Find(tree.root(), "external_annotations"))) {
    if (tree.Integer(tree.Find(entry, "device"), device) != device) continue;
    const std::string name(tree.Text(tree.Find(entry, "name")));
    const std::string stage = ToLower(tree.Text(tree.Find(entry, "stage")));
    const std::int64_t time_us = tree.Integer(tree.Find(entry, "time_us"), -1);
    if (name.empty() || time_us < 0 || time_us > kMaxMicroseconds) continue;
    if (stage == "start") {
      begun[name] = time_us * kNsPerUs;
    } else if (const auto start = begun.find(name); stage == "end" && start != begun.end()) {
      out.events.push_back({.start_ns = start->second,
                            .end_ns = std::max(start->second, time_us * kNsPerUs),
                            .name = out.names.Of(name),
                            .track = out.TrackOf("annotations", "host"),
                            .kind = RawKind::kRange});
      begun.erase(start);
    }
  }
}

}  // namespace

Result<std::vector<RankEvents>> ReadSnapshot(ByteSource& bytes, std::string_view source,
                                             const std::function<bool()>& go_on) {
  const ReadBytes read = [&bytes](std::span<char> out) { return bytes.Read(out); };
  FT_ASSIGN(const PickleTree tree,
            ReadPickle(read, source,
                       {.if_too_large = "record fewer events (max_entries)", .go_on = go_on}));
  const PickleIndex segments = tree.Find(tree.root(), "segments");
  const PickleIndex traces = tree.Find(tree.root(), "device_traces");
  if (tree.kind(segments) != PickleTree::Kind::kList &&
      tree.kind(traces) != PickleTree::Kind::kList) {
    return Fail(ErrorCode::kCorruptInput,
                Printable(source, 512) +
                    ": a pickle without \"segments\" and \"device_traces\": no memory snapshot; "
                    "torch.cuda.memory._dump_snapshot() writes one");
  }
  Origins origins(tree);
  std::map<std::int64_t, Device> devices;
  ReadSegments(tree, segments, origins, devices);
  std::int64_t number = 0;
  for (const PickleIndex trace : tree.Items(traces)) {
    if (number >= static_cast<std::int64_t>(kMaxDevices)) break;
    if (!tree.Items(trace).empty()) {
      devices.try_emplace(number, tree, origins).first->second.Read(trace);
    }
    ++number;
  }
  std::vector<RankEvents> ranks;
  for (auto& [index, device] : devices) {
    if (device.IsEmpty()) continue;
    RankEvents rank;
    device.Write(rank);
    ReadAnnotations(tree, index, rank);
    if (!device.has_times()) {
      rank.notes.push_back("the snapshot has no times: its events are shown a microsecond apart");
    }
    rank.rank = static_cast<int>(index);
    rank.source = "device " + std::to_string(index);
    ranks.push_back(std::move(rank));
  }
  if (ranks.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                Printable(source, 512) +
                    ": a memory snapshot without an allocation; call "
                    "torch.cuda.memory._record_memory_history() before the training");
  }
  return ranks;
}

}  // namespace foretrain::trace_import
