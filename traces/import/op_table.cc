#include "traces/import/op_table.h"

#include <charconv>
#include <utility>

#include "base/result.h"
#include "base/text.h"
#include "traces/embedded_data.h"

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

// The last column holds a communication kind, a pass or a mark; each is tried.
NameMeaning MeaningOf(std::string_view op_class, std::string_view what) {
  NameMeaning meaning;
  meaning.op_class = ParseOpClass(op_class).value();
  for (const auto& [name, kind] : kKinds) {
    if (name == what) meaning.kind = kind;
  }
  meaning.pass = ParsePass(what).value_or(Pass::kNone);
  return meaning;
}

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

// The first column says where a name may stand. `nullopt`: in an annotation.
std::optional<NamePlace> PlaceOf(std::string_view text) {
  if (text == "kernel") return NamePlace::kKernel;
  if (text == "op") return NamePlace::kOp;
  if (text == "group") return NamePlace::kGroup;
  FT_CHECK(text == "range");
  return std::nullopt;
}

}  // namespace

// Parses the embedded table. It is part of the program, so a bad row is a bug and stops.
OpTable::OpTable() {
  const EmbeddedFile* const file =
      FindEmbedded(traces_data::Files(), "traces/import/op_patterns.csv");
  FT_CHECK(file != nullptr);
  for (const std::string_view line : Split(file->text, '\n')) {
    if (line.empty() || line.starts_with('#') || line.starts_with("where,")) continue;
    const std::vector<std::string_view> cells = Split(line, ',');
    FT_CHECK(cells.size() == 4);
    Row row{std::string(cells[1]), MeaningOf(cells[2], cells[3])};
    if (cells[3] == "step") row.mark = Mark::kStep;
    if (cells[3] == "layer") row.mark = Mark::kLayer;
    if (cells[3] == "micro_batch") row.mark = Mark::kMicroBatch;
    FT_CHECK(cells[3].empty() || row.meaning.kind.has_value() || row.meaning.pass != Pass::kNone ||
             row.mark != Mark::kNone);
    const std::optional<NamePlace> place = PlaceOf(cells[0]);
    (place ? rows_[static_cast<std::size_t>(*place)] : ranges_).push_back(std::move(row));
  }
}

// Rows are tried in the file's order, so specific names come before general ones.
std::optional<NameMeaning> OpTable::Find(NamePlace place, std::string_view name) const {
  const std::string lower = ToLower(name);
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
