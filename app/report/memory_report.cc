#include "app/report/memory_report.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "app/report/report.h"
#include "base/json/json.h"
#include "base/table.h"
#include "base/units.h"
#include "sim/memory/peak_memory.h"

namespace foretrain {
namespace {

// One column of the memory table.
using Cells = std::vector<std::string>;

// "stage 1" and "stage 6" -> "stage 1-6".
std::string RangeName(const std::string& first, const std::string& last) {
  const std::size_t space = last.rfind(' ');
  return first + "-" + (space == std::string::npos ? last : last.substr(space + 1));
}

// Printed text, not bytes, so that ColumnsOf compares what the reader sees.
Cells CellsOf(const NamedPeak& peak) {
  Cells cells;
  for (const std::int64_t bytes : peak.peak.bytes) cells.push_back(FormatBytes(bytes));
  cells.push_back(FormatBytes(peak.peak.total));
  for (const OutsideBytes& one : peak.outside) cells.push_back(FormatBytes(one.bytes));
  if (!peak.outside.empty()) cells.push_back(FormatBytes(peak.InAll()));
  return cells;
}

struct MemoryColumn {
  std::string name;
  std::string last;  // last rank that shares it
  Cells cells;
  std::int64_t bytes = 0;  // in all
};

// Joins neighbours whose printed cells are equal. Pipelines have long runs of equal stages, and a
// difference that is not printed would only widen the table.
std::vector<MemoryColumn> ColumnsOf(const std::vector<NamedPeak>& peaks) {
  std::vector<MemoryColumn> columns;
  for (const NamedPeak& peak : peaks) {
    Cells cells = CellsOf(peak);
    if (!columns.empty() && columns.back().cells == cells) {
      columns.back().last = peak.name;
    } else {
      columns.push_back({peak.name, "", std::move(cells), peak.InAll()});
    }
  }
  for (MemoryColumn& column : columns) {
    if (!column.last.empty()) column.name = RangeName(column.name, column.last);
  }
  return columns;
}

// "CUDA graphs" -> "cuda_graphs".
std::string KeyOf(std::string name) {
  for (char& c : name) c = c == ' ' ? '_' : static_cast<char>(std::tolower(c));
  return name;
}

// Names of the rows, and which of them follow a rule. A row with an empty name is not shown.
struct MemoryRow {
  std::string name;
  bool after_line = false;
};

// A category that is 0 everywhere has an empty name. It keeps its index, because cells are
// addressed by row.
std::vector<MemoryRow> RowsOf(const std::vector<NamedPeak>& peaks) {
  std::vector<MemoryRow> rows;
  const auto any = [&](auto bytes) {
    return std::any_of(peaks.begin(), peaks.end(),
                       [&](const NamedPeak& p) { return bytes(p) > 0; });
  };
  for (std::size_t c = 0; c < kCategoryCount; ++c) {
    const bool shown = any([c](const NamedPeak& peak) { return peak.peak.bytes[c]; });
    rows.push_back({shown ? std::string(Name(static_cast<Category>(c))) : ""});
  }
  rows.push_back({"peak memory", true});
  const std::vector<OutsideBytes>& outside = peaks.front().outside;
  for (std::size_t i = 0; i < outside.size(); ++i) {
    const bool shown = any([i](const NamedPeak& peak) { return peak.outside[i].bytes; });
    rows.push_back({shown ? outside[i].name : ""});
  }
  if (!outside.empty()) rows.push_back({"device memory", true});
  return rows;
}

// The columns to show: the first, the last, the fullest and others spread between them.
std::vector<std::size_t> Shown(const std::vector<MemoryColumn>& columns) {
  std::vector<std::size_t> shown;
  const std::size_t all = columns.size(), some = std::min(all, kPeakColumns);
  for (std::size_t i = 0; i < some; ++i)
    shown.push_back(some == 1 ? 0 : i * (all - 1) / (some - 1));
  const auto max = std::max_element(
      columns.begin(), columns.end(),
      [](const MemoryColumn& a, const MemoryColumn& b) { return a.bytes < b.bytes; });
  const auto fullest = static_cast<std::size_t>(max - columns.begin());
  // If the fullest column is not among the evenly spread ones, it replaces its neighbour. The last
  // column always stays.
  const auto at = std::lower_bound(shown.begin(), shown.end(), fullest);
  if (*at != fullest) *(at == shown.end() - 1 ? at - 1 : at) = fullest;
  return shown;
}

// Rows without a name are skipped here, not removed, because cells are addressed by row.
std::string TextOf(const std::vector<MemoryRow>& rows, const std::vector<MemoryColumn>& columns,
                   const std::vector<std::size_t>& shown) {
  std::vector<std::string> titles = {"memory at the peak"};
  for (const std::size_t c : shown) titles.push_back(">" + columns[c].name);
  Table table(titles);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].name.empty()) continue;
    if (rows[r].after_line) table.AddLine();
    std::vector<std::string> row = {rows[r].name};
    for (const std::size_t c : shown) row.push_back(columns[c].cells[r]);
    table.AddRow(std::move(row));
  }
  return table.Text(2);
}

}  // namespace

std::int64_t NamedPeak::InAll() const {
  std::int64_t sum = peak.total;
  for (const OutsideBytes& one : outside) sum += one.bytes;
  return sum;
}

// The bytes of a device that no tensor of the program holds, each with its source.
std::vector<OutsideBytes> OutsideOf(const DeviceUse& memory, const SystemOptions& system) {
  std::vector<OutsideBytes> out = {
      {"held by the allocator", memory.held,
       system.caching_allocator
           ? "what eager kernels and libraries keep in the step, in whole blocks"
           : "gaps of the arena"}};
  if (system.caching_allocator) {
    out.push_back({"cached by it", memory.cached,
                   "free parts of its segments, of which a full device has fewer"});
  }
  for (const OverheadEntry& entry : OverheadEntries()) {
    out.push_back(
        {std::string(entry.name), memory.outside.*entry.bytes, std::string(entry.source)});
  }
  return out;
}

// Says how many columns there are if not all are shown.
std::string MemoryText(const std::vector<NamedPeak>& peaks) {
  if (peaks.empty()) return "";
  const std::vector<MemoryColumn> columns = ColumnsOf(peaks);
  const std::vector<MemoryRow> rows = RowsOf(peaks);
  const std::vector<std::size_t> shown = Shown(columns);
  std::string text = TextOf(rows, columns, shown);
  if (shown.size() < columns.size()) {
    text += "  " + std::to_string(shown.size()) + " of " + std::to_string(columns.size()) +
            " that differ, the fullest among them; --json has all\n";
  }
  return text;
}

// Only the parts that are not 0 on some rank.
std::string OutsideSources(const std::vector<NamedPeak>& peaks) {
  if (peaks.empty()) return "";
  std::string text;
  for (std::size_t i = 0; i < peaks.front().outside.size(); ++i) {
    const OutsideBytes& one = peaks.front().outside[i];
    const bool any = std::any_of(peaks.begin(), peaks.end(),
                                 [i](const NamedPeak& peak) { return peak.outside[i].bytes > 0; });
    if (any) text += "  " + Pad(one.name, 24, Align::kLeft) + one.source + "\n";
  }
  return text;
}

// Every rank and every category, zeros too: a reader of JSON needs no rule for what is missing.
void WriteMemory(JsonWriter& json, const std::vector<NamedPeak>& peaks) {
  json.Name("memory_gib").BeginObject();
  for (const NamedPeak& peak : peaks) {
    json.Name(peak.name).BeginObject();
    for (int c = 0; c < kCategoryCount; ++c) {
      json.Field(Name(static_cast<Category>(c)),
                 GibFromBytes(peak.peak.bytes[static_cast<std::size_t>(c)]));
    }
    json.Field("peak_memory", GibFromBytes(peak.peak.total));
    for (const OutsideBytes& one : peak.outside) {
      json.Field(KeyOf(one.name), GibFromBytes(one.bytes));
    }
    if (!peak.outside.empty()) json.Field("device_memory", GibFromBytes(peak.InAll()));
    json.EndObject();
  }
  json.EndObject();
  if (peaks.empty() || peaks.front().outside.empty()) return;
  json.Name("memory_sources").BeginObject();
  for (const OutsideBytes& one : peaks.front().outside) json.Field(KeyOf(one.name), one.source);
  json.EndObject();
}

// Peaks of the whole run on the device. Peaks of single steps and other spaces are left out.
std::vector<NamedPeak> PeaksOf(const Metrics& metrics) {
  std::vector<NamedPeak> out;
  for (const MemoryPeak& peak : metrics.memory) {
    if (peak.step != -1 || peak.space != Space::kDevice) continue;
    out.push_back({"rank " + std::to_string(peak.rank), {peak.parts, peak.bytes}});
  }
  return out;
}

// `loads_once` means that one rank of a node reads the weights for all, so loading is not
// multiplied by the ranks.
std::string HostText(const HostView& view) {
  const HostMemory& rank = view.rank;
  Table table({"memory of a host", ">a rank", ">node", "from"});
  for (const HostEntry& entry : HostEntries()) {
    const std::int64_t bytes = rank.*entry.bytes;
    if (bytes == 0) continue;
    // Loading is not multiplied if one rank reads for all.
    const bool once = !entry.in_step && entry.bytes == &HostMemory::loading && rank.loads_once;
    table.AddRow({std::string(entry.name), FormatBytes(bytes),
                  FormatBytes(bytes * (once ? 1 : view.ranks)), std::string(entry.source)});
  }
  if (table.empty()) return "";
  const NodeMemory node = view.node();
  table.AddLine();
  table.AddRow({"while it trains", FormatBytes(rank.InStep()), FormatBytes(node.in_step)});
  table.AddRow(
      {"while weights load", FormatBytes(rank.WhileLoading()), FormatBytes(node.while_loading)});
  if (view.has > 0) table.AddRow({"capacity of the host", "", FormatBytes(view.has)});
  table.Wrap("from");
  return table.Text(2);
}

// Sizes of one rank, then the sums of the node.
void WriteHost(JsonWriter& json, const HostView& view) {
  const HostMemory& rank = view.rank;
  const NodeMemory node = view.node();
  json.Field("host_memory_gib", GibFromBytes(rank.pinned + rank.pageable));
  json.Field("pinned_memory_gib", GibFromBytes(rank.pinned));
  json.Field("nvme_gib", GibFromBytes(rank.disk));
  json.Name("host").BeginObject().Field("ranks", view.ranks).Name("rank").BeginObject();
  for (const HostEntry& entry : HostEntries())
    json.Field(entry.key, GibFromBytes(rank.*entry.bytes));
  json.EndObject().Name("sources").BeginObject();
  for (const HostEntry& entry : HostEntries()) json.Field(entry.key, entry.source);
  json.EndObject().Field("while_training_gib", GibFromBytes(node.in_step));
  json.Field("while_weights_load_gib", GibFromBytes(node.while_loading));
  json.Field("capacity_gib", GibFromBytes(view.has)).EndObject();
}

// Peaks are the maximum over ranks; bytes moved are the sum over ranks.
OffloadStats OffloadStatsOf(const Program& program) {
  OffloadStats stats;
  for (const RankProgram& rank : program.ranks) {
    for (std::size_t space = 0; space < stats.peak_bytes.size(); ++space) {
      std::int64_t& peak = stats.peak_bytes[space];
      peak = std::max(peak, LinkedPeak(rank, static_cast<Space>(space)).total);
    }
    const CopiedBytes moved = CopiedBytesOf(program, rank);
    stats.moved.to_device += moved.to_device;
    stats.moved.from_device += moved.from_device;
    stats.moved.read += moved.read;
    stats.moved.written += moved.written;
  }
  return stats;
}

namespace {

std::string LineOf(const char* name, std::int64_t bytes) {
  return bytes > 0 ? MetricLine(name, FormatBytes(bytes)) : "";
}

}  // namespace

std::string MovedText(const CopiedBytes& moved) {
  return LineOf("moved to device", moved.to_device) +
         LineOf("moved from device", moved.from_device) + LineOf("read from NVMe", moved.read) +
         LineOf("written to NVMe", moved.written);
}

// Lines for the spaces that are in use. A plan without offload has none.
std::string OffloadText(const OffloadStats& stats) {
  const auto peak = [&](Space space) { return stats.peak_bytes[static_cast<std::size_t>(space)]; };
  return LineOf("host memory", peak(Space::kHost) + peak(Space::kPinned)) +
         LineOf("pinned memory", peak(Space::kPinned)) + LineOf("NVMe", peak(Space::kNvme)) +
         MovedText(stats.moved);
}

void WriteMoved(JsonWriter& json, const CopiedBytes& moved) {
  json.Field("moved_to_device_bytes", moved.to_device);
  json.Field("moved_from_device_bytes", moved.from_device);
  json.Field("read_from_nvme_bytes", moved.read).Field("written_to_nvme_bytes", moved.written);
}

void WriteOffload(JsonWriter& json, const OffloadStats& stats) {
  const auto gib = [&](Space space) {
    return GibFromBytes(stats.peak_bytes[static_cast<std::size_t>(space)]);
  };
  json.Field("host_memory_gib", gib(Space::kHost) + gib(Space::kPinned));
  json.Field("pinned_memory_gib", gib(Space::kPinned)).Field("nvme_gib", gib(Space::kNvme));
  WriteMoved(json, stats.moved);
}

}  // namespace foretrain
