#include "traces/import/op_table.h"

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>

#include "base/result.h"
#include "base/text.h"
#include "traces/embedded_data.h"
#include "traces/kernels/kernel_table.h"

namespace foretrain::trace_import {
namespace {

// A broadcast counts as an all-gather: our programs have none. An all-to-all is an op within a
// block.
constexpr std::array<std::pair<std::string_view, InstructionKind>, 7> kKinds{{
    {"all_reduce", InstructionKind::kAllReduce},
    {"all_gather", InstructionKind::kAllGather},
    {"reduce_scatter", InstructionKind::kReduceScatter},
    {"broadcast", InstructionKind::kAllGather},
    {"send", InstructionKind::kSend},
    {"recv", InstructionKind::kRecv},
    {"all_to_all", InstructionKind::kBlock},
}};

// True if `name` contains `text`. If `words` is set, texts of one or two letters must be whole
// words, so that "http" does not match the group "tp".
bool Fits(std::string_view name, std::string_view text, bool words) {
  const auto is_letter = [&name](std::size_t i) {
    return i < name.size() && name[i] >= 'a' && name[i] <= 'z';
  };
  for (std::size_t at = name.find(text); at != std::string_view::npos;
       at = name.find(text, at + 1)) {
    if (!words || text.size() > 2) return true;
    if (!is_letter(at - 1) && !is_letter(at + text.size())) return true;
  }
  return false;
}

constexpr std::array<std::string_view, 4> kPlaces = {"collective", "kernel", "op", "group"};

Result<void> Refuse(std::string_view cell, const std::string& why) {
  return Fail(ErrorCode::kInvalidArgument, "\"" + Printable(cell) + "\" " + why);
}

}  // namespace

// The embedded table is part of the program, so a bad row is a bug and stops.
OpTable::OpTable() {
  constexpr std::string_view kPath = "traces/import/op_patterns.csv";
  const EmbeddedFile* const file = FindEmbedded(traces_data::Files(), kPath);
  FT_CHECK(file != nullptr);
  const Result<void> added = Add(file->text, std::string(kPath));
  FT_CHECK(added.has_value());
}

Result<OpTable> OpTable::With(std::string_view text, const std::string& source) {
  OpTable table{Empty{}};
  FT_TRY(table.Add(text, source));
  OpTable embedded;
  const auto append = [](std::vector<Row>& to, const std::vector<Row>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (std::size_t i = 0; i < kPlaces.size(); ++i) append(table.rows_[i], embedded.rows_[i]);
  append(table.ranges_, embedded.ranges_);
  return table;
}

Result<void> OpTable::Add(std::string_view text, const std::string& source) {
  int number = 0;
  for (std::string_view line : Split(text, '\n')) {
    ++number;
    line = Trim(line);
    if (line.empty() || line.starts_with('#') || line.starts_with("where,")) continue;
    const std::vector<std::string_view> cells = Split(line, ',');
    Result<Row> row = ReadRow(cells);
    if (!row.has_value()) {
      return Fail(
          ErrorCode::kInvalidArgument,
          Printable(source) + ", line " + std::to_string(number) + ": " + row.error().message);
    }
    const auto place = std::find(kPlaces.begin(), kPlaces.end(), cells[0]) - kPlaces.begin();
    const bool is_range = place == std::ssize(kPlaces);
    (is_range ? ranges_ : rows_[static_cast<std::size_t>(place)]).push_back(*std::move(row));
  }
  return {};
}

// The last cell holds a communication kind, a pass or a mark; each is tried.
Result<OpTable::Row> OpTable::ReadRow(std::span<const std::string_view> cells) {
  if (cells.size() != 4) {
    return Fail(ErrorCode::kInvalidArgument,
                std::to_string(cells.size()) + " cells; a row has where, text, class and what");
  }
  const auto& [where, text, op_class, what] = std::tie(cells[0], cells[1], cells[2], cells[3]);
  if (where != "range" && std::find(kPlaces.begin(), kPlaces.end(), where) == kPlaces.end()) {
    FT_TRY(Refuse(where, "is no place; write collective, kernel, op, range or group"));
  }
  const std::optional<OpClass> known = ParseOpClass(op_class);
  if (!known) FT_TRY(Refuse(op_class, "is no op class; write one of docs/glossary.md, e.g. gemm"));
  Row row{ToLower(text), {.op_class = known.value_or(OpClass::kMemoryBound)}};
  for (const auto& [name, kind] : kKinds) {
    if (name == what) row.meaning.kind = kind;
  }
  row.meaning.pass = ParsePass(what).value_or(Pass::kNone);
  if (what == "step") row.mark = Mark::kStep;
  if (what == "layer") row.mark = Mark::kLayer;
  if (what == "micro_batch") row.mark = Mark::kMicroBatch;
  if (!what.empty() && !row.meaning.kind && row.meaning.pass == Pass::kNone &&
      row.mark == Mark::kNone) {
    FT_TRY(
        Refuse(what, "says nothing; write e.g. all_reduce, forward or layer, or leave it empty"));
  }
  return row;
}

// Rows are tried in the file's order, so specific names come before general ones.
std::optional<NameMeaning> OpTable::Find(NamePlace place, std::string_view name) const {
  // Types of parameters may name another library.
  const std::string lower = ToLower(place == NamePlace::kKernel ? WithoutParameters(name) : name);
  for (const Row& row : rows_[static_cast<std::size_t>(place)]) {
    if (Fits(lower, row.text, place == NamePlace::kGroup)) return row.meaning;
  }
  return std::nullopt;
}

// An annotation may state several things ("layer 3 backward"): each is taken from the first row
// that fits.
RangeMeaning OpTable::FindRange(std::string_view name) const {
  const std::string lower = ToLower(name);
  RangeMeaning found;
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const Row& row = ranges_[i];
    if (row.mark == Mark::kNone) {
      if (found.pass == Pass::kNone && Fits(lower, row.text, false)) found.pass = row.meaning.pass;
      continue;
    }
    const std::optional<int> number = NumberBehind(lower, row.text);
    if (!number.has_value()) continue;
    if (row.mark == Mark::kStep && !found.step.has_value()) {
      found.step = number;
      found.step_row = static_cast<int>(i);
    }
    std::optional<int>& at = row.mark == Mark::kLayer ? found.layer : found.micro_batch;
    if (row.mark != Mark::kStep && !at.has_value()) at = number;
  }
  return found;
}

// At most nine digits, so that the number fits an int.
std::optional<int> NumberBehind(std::string_view name, std::string_view mark) {
  const auto is_digit = [&name](std::size_t i) {
    return i < name.size() && name[i] >= '0' && name[i] <= '9';
  };
  for (std::size_t at = name.find(mark); at != std::string_view::npos;
       at = name.find(mark, at + 1)) {
    std::size_t first = at + mark.size();
    if (!is_digit(first)) ++first;
    std::size_t last = first;
    while (is_digit(last)) ++last;
    if (last == first || last - first > 9) continue;
    int number = 0;
    std::from_chars(name.data() + first, name.data() + last, number);
    return number;
  }
  return std::nullopt;
}

// Data-parallel gathers and reductions have separate queues, as in our own programs.
Queue QueueOf(const NameMeaning& meaning) {
  switch (meaning.op_class) {
    case OpClass::kTpComm:
      return Queue::kTp;
    case OpClass::kCpComm:
      return Queue::kCp;
    case OpClass::kEpComm:
      return Queue::kEp;
    case OpClass::kDpComm:
      return meaning.kind == InstructionKind::kAllGather ? Queue::kGather : Queue::kReduce;
    case OpClass::kPpComm:
      return meaning.kind == InstructionKind::kRecv ? Queue::kRecvPrev : Queue::kSendNext;
    case OpClass::kHost:
      return Queue::kHost;
    default:
      return Queue::kCompute;
  }
}

}  // namespace foretrain::trace_import
