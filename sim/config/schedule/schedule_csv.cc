#include "sim/config/schedule/schedule_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/text.h"

namespace foretrain {
namespace {

constexpr std::array<std::string_view, 10> kCommunication = {
    "SEND_F",      "RECV_F",  "SEND_B",  "RECV_B",      "WAIT_SEND_F",
    "WAIT_SEND_B", "UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD"};
constexpr std::string_view kOverlap = "OVERLAP_F_B";

char LetterOf(Pass pass) {
  switch (pass) {
    case Pass::kBackward:
      return 'B';
    case Pass::kBackwardInput:
      return 'I';
    case Pass::kBackwardWeight:
      return 'W';
    default:
      return 'F';
  }
}

std::optional<Pass> PassOf(std::string_view word) {
  if (word == "F") return Pass::kForward;
  if (word == "B") return Pass::kBackward;
  if (word == "I") return Pass::kBackwardInput;
  if (word == "W") return Pass::kBackwardWeight;
  return std::nullopt;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// A number of digits alone, at most `max`; `nullopt` otherwise.
std::optional<int> NumberIn(std::string_view text, int max) {
  if (text.empty() || !std::all_of(text.begin(), text.end(), IsDigit)) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value > max) return std::nullopt;
  return value;
}

// Reads one cell after the other into the draft's last rank.
class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  Result<void> ReadLine(std::string_view line) {
    ++line_;
    if (draft_.ranks.size() == kMaxScheduleRanks) {
      return Fail(ErrorCode::kCorruptInput,
                  fmt::format("{}: line {}: a schedule has at most {} ranks, one a line", file_,
                              line_, kMaxScheduleRanks));
    }
    draft_.ranks.emplace_back();
    cell_ = 0;
    for (const std::string_view cell : Split(line, ',')) {
      ++cell_;
      FT_TRY(ReadCell(cell));
    }
    return {};
  }

  Result<ScheduleDraft> Take() {
    while (!draft_.ranks.empty() && draft_.ranks.back().empty()) draft_.ranks.pop_back();
    if (draft_.ranks.empty()) {
      return Fail(ErrorCode::kCorruptInput,
                  fmt::format("{}: has no action; a line lists those of one rank, e.g. "
                              "0F0,0F1,0B0,0B1",
                              file_));
    }
    return std::move(draft_);
  }

 private:
  tl::unexpected<Error> Refuse(std::string_view cell, std::string_view why) const {
    return Fail(ErrorCode::kCorruptInput, fmt::format("{}: line {}, cell {}: \"{}\" {}", file_,
                                                      line_, cell_, Printable(cell, 40), why));
  }

  Result<void> ReadCell(std::string_view cell) {
    std::string_view text = Trim(cell);
    if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
      text = Trim(text.substr(1, text.size() - 2));
    }
    if (text.empty()) return {};
    return text.front() == '(' ? ReadPair(text) : ReadAction(text, /*paired=*/false);
  }

  // "(1F2;0B1)OVERLAP_F_B"
  Result<void> ReadPair(std::string_view text) {
    const std::size_t close = text.find(')');
    const std::vector<std::string_view> parts = close == std::string_view::npos
                                                    ? std::vector<std::string_view>()
                                                    : Split(text.substr(1, close - 1), ';');
    if (parts.size() != 2 || Trim(text.substr(close + 1)) != kOverlap) {
      return Refuse(text, "is no pair; use (1F2;0B1)OVERLAP_F_B");
    }
    FT_TRY(ReadAction(Trim(parts[0]), /*paired=*/true));
    return ReadAction(Trim(parts[1]), /*paired=*/false);
  }

  // Digits, letters, digits. Communication may come without a micro-batch.
  Result<void> ReadAction(std::string_view text, bool paired) {
    const auto* const begin = text.begin();
    const auto* const letters = std::find_if_not(begin, text.end(), IsDigit);
    const auto* const number = std::find_if(letters, text.end(), IsDigit);
    const std::string_view word = text.substr(static_cast<std::size_t>(letters - begin),
                                              static_cast<std::size_t>(number - letters));
    const std::string_view stage = text.substr(0, static_cast<std::size_t>(letters - begin));
    const std::string_view micro_batch = text.substr(static_cast<std::size_t>(number - begin));
    const bool communicates =
        std::find(kCommunication.begin(), kCommunication.end(), word) != kCommunication.end();
    const std::optional<Pass> pass = PassOf(word);
    if ((!pass && (!communicates || paired)) || stage.empty() ||
        (micro_batch.empty() && !communicates)) {
      return Refuse(text,
                    "is no action; use STAGE, one of F, B, I and W, and MICROBATCH, e.g. 0F1");
    }
    const std::optional<int> stage_number = NumberIn(stage, kMaxScheduleStage);
    if (!stage_number) {
      return Refuse(text, fmt::format("names a stage above {}", kMaxScheduleStage));
    }
    if (communicates) {
      ++draft_.skipped;
      return {};
    }
    const std::optional<int> micro_batch_number = NumberIn(micro_batch, kMaxScheduleMicroBatch);
    if (!micro_batch_number) {
      return Refuse(text, fmt::format("names no micro-batch from 0 to {}", kMaxScheduleMicroBatch));
    }
    if (++actions_ > kMaxScheduleActions) {
      return Refuse(text, fmt::format("is one action too many; a schedule has at most {}",
                                      kMaxScheduleActions));
    }
    draft_.ranks.back().push_back({*pass, *stage_number, *micro_batch_number, paired, cell_});
    return {};
  }

  std::string file_;
  int line_ = 0;
  int cell_ = 0;
  std::size_t actions_ = 0;
  ScheduleDraft draft_;
};

}  // namespace

std::string NameOf(const ScheduleAction& action) {
  return fmt::format("{}{}{}", action.stage, LetterOf(action.pass), action.micro_batch);
}

Result<ScheduleDraft> ParseSchedule(std::string_view text, std::string_view file) {
  if (text.size() > kMaxScheduleBytes) {
    return Fail(ErrorCode::kCorruptInput, fmt::format("{}: has {} bytes; a schedule has at most {}",
                                                      file, text.size(), kMaxScheduleBytes));
  }
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  // A file ends with the end of its last line; more of them are skipped.
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  Reader reader(file);
  for (const std::string_view line : Split(text, '\n')) FT_TRY(reader.ReadLine(line));
  return reader.Take();
}

Result<ScheduleDraft> ParseScheduleRows(const std::vector<std::string>& rows,
                                        std::string_view file) {
  Reader reader(file);
  for (const std::string& row : rows) FT_TRY(reader.ReadLine(row));
  return reader.Take();
}

std::vector<std::string> RowsOf(const ScheduleDraft& draft) {
  std::vector<std::string> rows;
  for (const auto& rank : draft.ranks) {
    std::string& row = rows.emplace_back();
    for (std::size_t i = 0; i < rank.size(); ++i) {
      if (!row.empty()) row += ',';
      if (!rank[i].paired || i + 1 == rank.size()) {
        row += NameOf(rank[i]);
        continue;
      }
      row += fmt::format("({};{}){}", NameOf(rank[i]), NameOf(rank[i + 1]), kOverlap);
      ++i;
    }
  }
  return rows;
}

std::string ToCsv(const ScheduleDraft& draft) {
  std::string text;
  for (const std::string& row : RowsOf(draft)) text += row + "\n";
  return text;
}

}  // namespace foretrain
