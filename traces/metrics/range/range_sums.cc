#include "traces/metrics/range/range_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/numeric/digits_apart.h"
#include "base/text.h"
#include "base/units.h"

namespace foretrain {
namespace {

// More digits than this hinder reading a column of many rows.
constexpr int kMaxColumnDigits = 5;

// The part of the span that lies in the range.
std::int64_t LengthIn(const Span& span, const SummedRange& range) {
  return std::min(span.end_ns, range.end_ns) - std::max(span.start_ns, range.start_ns);
}

// A span without length counts where it begins.
bool IsIn(const Span& span, const SummedRange& range) {
  if (range.rank.has_value() && span.rank != *range.rank) return false;
  if (span.start_ns >= range.end_ns) return false;
  return span.end_ns > range.start_ns ||
         (span.start_ns == span.end_ns && span.start_ns == range.start_ns);
}

// Name and pass of an op; without a name the kind of its instruction.
std::string NameOf(const Timeline& timeline, OpId op) {
  if (!IsValidId(op)) return "not part of the program";
  const InstructionKey key = UnpackId(op);
  const auto named = timeline.op_names.find(NameKey(op));
  std::string name =
      named != timeline.op_names.end() ? Printable(named->second) : std::string(Name(key.kind));
  if (key.pass != Pass::kNone) name += " " + std::string(Name(key.pass));
  return name;
}

// Adds up to the largest number: damaged stores hold spans of centuries.
void AddTo(std::int64_t& sum, std::int64_t value) {
  if (__builtin_add_overflow(sum, value, &sum)) sum = std::numeric_limits<std::int64_t>::max();
}

void Add(const Span& span, const SummedRange& range, RangeSum& sum) {
  ++sum.spans;
  AddTo(sum.busy_ns, LengthIn(span, range));
  if (span.start_ns >= range.start_ns) AddTo(sum.bytes, std::max<std::int64_t>(0, span.bytes));
}

void Add(const RangeSum& row, RangeSum& total) {
  total.spans += row.spans;
  AddTo(total.busy_ns, row.busy_ns);
  AddTo(total.bytes, row.bytes);
  AddTo(total.classes.compute_ns, row.classes.compute_ns);
  AddTo(total.classes.exposed_communication_ns, row.classes.exposed_communication_ns);
  AddTo(total.classes.exposed_copy_ns, row.classes.exposed_copy_ns);
  AddTo(total.classes.host_ns, row.classes.host_ns);
  AddTo(total.classes.idle_ns, row.classes.idle_ns);
}

// Names are made once for each op and class, because ops repeat on every rank and micro-batch.
class Rows {
 public:
  explicit Rows(const Timeline& timeline) : timeline_(timeline) {}

  RangeSum& Of(SumBy by, const Span& span) {
    if (by == SumBy::kClass) return At(std::string(Name(span.op_class)), span);
    RangeSum*& row = rows_of_[NameKey(span.op)][static_cast<std::size_t>(span.op_class)];
    if (row == nullptr) row = &At(NameOf(timeline_, span.op), span);
    return *row;
  }

  std::vector<RangeSum> Take() {
    std::vector<RangeSum> rows;
    for (auto& [key, row] : rows_) rows.push_back(std::move(row));
    std::stable_sort(rows.begin(), rows.end(),
                     [](const RangeSum& a, const RangeSum& b) { return a.busy_ns > b.busy_ns; });
    return rows;
  }

 private:
  RangeSum& At(std::string name, const Span& span) {
    RangeSum& row = rows_[{name, span.op_class}];
    row.name = std::move(name);
    row.op_class = span.op_class;
    return row;
  }

  const Timeline& timeline_;
  std::map<std::pair<std::string, OpClass>, RangeSum> rows_;
  std::unordered_map<OpId, std::array<RangeSum*, kOpClassCount>> rows_of_;  // by class
};

std::vector<int> RanksIn(const Timeline& timeline, const SummedRange& range) {
  std::vector<int> ranks;
  for (const Span& span : timeline.spans) {
    if ((ranks.empty() || ranks.back() != span.rank) && IsIn(span, range)) {
      ranks.push_back(span.rank);
    }
  }
  return ranks;
}

RangeSum SumOfRank(const Timeline& timeline, int rank, const SummedRange& range) {
  RangeSum row{.name = std::to_string(rank), .rank = rank};
  const std::span<const Span> spans = SpansOfRank(timeline, rank);
  for (const Span& span : spans) {
    if (IsIn(span, range)) Add(span, range, row);
  }
  row.classes = RankClasses(spans).In(range.start_ns, range.end_ns);
  return row;
}

// Texts of one column of times, the sum's last.
std::vector<std::string> Times(const RangeSums& sums, std::int64_t (*ns)(const RangeSum&)) {
  std::vector<double> seconds;
  for (const RangeSum& row : sums.rows) seconds.push_back(SecondsFromNs(ns(row)));
  seconds.push_back(SecondsFromNs(ns(sums.total)));
  return SecondsApart(seconds, kMaxColumnDigits);
}

std::string ShareText(const RangeSums& sums, std::int64_t ns) {
  const double whole = static_cast<double>(sums.range.end_ns - sums.range.start_ns) *
                       static_cast<double>(std::max(1, sums.ranks));
  return whole > 0 ? FormatPercent(static_cast<double>(ns) / whole) : "";
}

std::string MeanText(const RangeSum& row) {
  if (row.spans == 0) return "";
  return FormatSeconds(SecondsFromNs(row.busy_ns) / static_cast<double>(row.spans));
}

std::string BytesText(const RangeSum& row) { return row.bytes > 0 ? FormatBytes(row.bytes) : ""; }

RangeTexts ByRank(const RangeSums& sums) {
  using Column = std::pair<const char*, std::int64_t (*)(const RangeSum&)>;
  const std::array<Column, 5> columns{
      {{">compute", [](const RangeSum& row) { return row.classes.compute_ns; }},
       {">exposed comm", [](const RangeSum& row) { return row.classes.exposed_communication_ns; }},
       {">exposed copy", [](const RangeSum& row) { return row.classes.exposed_copy_ns; }},
       {">host", [](const RangeSum& row) { return row.classes.host_ns; }},
       {">idle", [](const RangeSum& row) { return row.classes.idle_ns; }}}};
  RangeTexts texts{.titles = {"rank", ">spans"}};
  std::vector<std::vector<std::string>> times;
  for (const auto& [title, ns] : columns) {
    texts.titles.emplace_back(title);
    times.push_back(Times(sums, ns));
  }
  for (std::size_t i = 0; i <= sums.rows.size(); ++i) {
    const RangeSum& row = i == sums.rows.size() ? sums.total : sums.rows[i];
    std::vector<std::string> cells{row.name, std::to_string(row.spans)};
    for (const auto& column : times) cells.push_back(column[i]);
    texts.rows.push_back(std::move(cells));
  }
  return texts;
}

RangeTexts ByWork(const RangeSums& sums) {
  const bool ops = sums.by == SumBy::kOp;
  RangeTexts texts{.titles = {ops ? "op" : "class"}};
  if (ops) texts.titles.emplace_back("class");
  for (const char* title : {">spans", ">time", ">mean", ">of the range", ">bytes"}) {
    texts.titles.emplace_back(title);
  }
  const auto times = Times(sums, [](const RangeSum& row) { return row.busy_ns; });
  for (std::size_t i = 0; i <= sums.rows.size(); ++i) {
    const bool is_total = i == sums.rows.size();
    const RangeSum& row = is_total ? sums.total : sums.rows[i];
    std::vector<std::string> cells{row.name};
    if (ops) cells.emplace_back(is_total ? "" : Name(row.op_class));
    cells.push_back(std::to_string(row.spans));
    cells.push_back(times[i]);
    cells.push_back(MeanText(row));
    cells.push_back(ShareText(sums, row.busy_ns));
    cells.push_back(BytesText(row));
    texts.rows.push_back(std::move(cells));
  }
  return texts;
}

// One bound of a range. A time beyond what the clock can hold is refused, so that sums stay exact.
Result<std::int64_t> ParseBound(std::string_view what, std::string_view text,
                                std::int64_t step_start_ns, std::int64_t own) {
  if (Trim(text).empty()) return own;
  FT_ASSIGN(const double seconds, ParseSeconds(what, text));
  std::int64_t ns = 0;
  if (__builtin_add_overflow(step_start_ns, NsFromSeconds(seconds), &ns)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: \"{}\" is after the last moment that a run can hold", what,
                            Printable(text)));
  }
  return ns;
}

}  // namespace

std::string_view Name(SumBy by) {
  switch (by) {
    case SumBy::kOp:
      return "op";
    case SumBy::kClass:
      return "class";
    case SumBy::kRank:
      break;
  }
  return "rank";
}

RangeSums SumRange(const Timeline& timeline, SumBy by, const SummedRange& range) {
  RangeSums sums{.by = by, .range = range};
  const std::vector<int> ranks = RanksIn(timeline, range);
  sums.ranks = static_cast<int>(ranks.size());
  if (by == SumBy::kRank) {
    for (const int rank : ranks) sums.rows.push_back(SumOfRank(timeline, rank, range));
  } else {
    Rows rows(timeline);
    for (const Span& span : timeline.spans) {
      if (IsIn(span, range)) Add(span, range, rows.Of(by, span));
    }
    sums.rows = rows.Take();
  }
  sums.total.name = "sum";
  for (const RangeSum& row : sums.rows) Add(row, sums.total);
  return sums;
}

RangeTexts TextsOf(const RangeSums& sums) {
  return sums.by == SumBy::kRank ? ByRank(sums) : ByWork(sums);
}

Table TableOf(const RangeSums& sums) {
  RangeTexts texts = TextsOf(sums);
  Table table(texts.titles);
  for (std::size_t i = 0; i < texts.rows.size(); ++i) {
    if (i + 1 == texts.rows.size()) table.AddLine();
    table.AddRow(std::move(texts.rows[i]));
  }
  return table;
}

std::string Describe(const RangeSums& sums, std::int32_t step, std::int64_t step_start_ns) {
  const std::array<double, 2> bounds{SecondsFromNs(sums.range.start_ns - step_start_ns),
                                     SecondsFromNs(sums.range.end_ns - step_start_ns)};
  const std::vector<std::string> texts = SecondsApart(bounds);
  const std::string ranks = sums.range.rank.has_value()
                                ? fmt::format("rank {}", *sums.range.rank)
                                : fmt::format("{} rank{}", sums.ranks, sums.ranks == 1 ? "" : "s");
  return fmt::format("{} to {} of step {}, {}", texts[0], texts[1], step, ranks);
}

Result<SummedRange> ParseRange(std::string_view what, std::string_view text,
                               std::int64_t step_start_ns, std::int64_t step_end_ns) {
  SummedRange range{step_start_ns, step_end_ns};
  if (!text.empty()) {
    const auto dots = text.find("..");
    if (dots == std::string_view::npos) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("{}: \"{}\" is not BEGIN..END, e.g. 1.2ms..1.9ms", what, Printable(text)));
    }
    FT_ASSIGN(range.start_ns, ParseBound(what, text.substr(0, dots), step_start_ns, step_start_ns));
    FT_ASSIGN(range.end_ns, ParseBound(what, text.substr(dots + 2), step_start_ns, step_end_ns));
  }
  if (range.end_ns <= range.start_ns) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: \"{}\" ends before it begins; the step takes {}", what, Printable(text),
                    FormatSeconds(SecondsFromNs(step_end_ns - step_start_ns))));
  }
  return range;
}

std::string RangeText(const SummedRange& range, std::int64_t step_start_ns) {
  return fmt::format("{}ns..{}ns", range.start_ns - step_start_ns, range.end_ns - step_start_ns);
}

}  // namespace foretrain
