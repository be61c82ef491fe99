#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "app/cli/stop_signal.h"
#include "app/commands/commands.h"
#include "app/runs/stored_runs.h"
#include "base/json/json.h"
#include "base/table.h"
#include "base/text.h"
#include "traces/store.h"
#include "traces/store_query.h"

namespace foretrain {
namespace {

constexpr int kMinTextWidth = 12;  // of a column of texts in a table
constexpr int kMaxTextWidth = 60;  // likewise, unless --wide
constexpr int kGap = 2;            // between two columns
constexpr std::int64_t kMaxLimit = 10'000'000;
constexpr std::int64_t kMaxTextBytes = 16 << 20;

// Runs one SELECT on the views of a store and prints the rows.
class Sql final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    arguments.Positional("STORE", store_, "File with the runs");
    arguments.Positional("SELECT", query_, "One statement of SQL that only reads");
    arguments.Flag("--views", views_, "List the views and their columns with units");
    arguments.Option("--limit", limit_, "N", "Rows to print at most");
    arguments.Option("--timeout", timeout_, "SECONDS", "Time after which the query is ended");
    arguments.Option("--max-text", max_text_, "BYTES",
                     "Bytes of one text to print at most with --csv and --json");
    DeclareTable(arguments);
    arguments.Footer(
        "docs/sql.md has the views and more queries. Examples:\n"
        "  foretrain sql --views\n"
        "  foretrain sql foretrain.db \"SELECT run_id, kind, label, step_time_s FROM v_run\"\n"
        "  foretrain sql foretrain.db \"SELECT name, sum(duration_ns) / 1e6 AS ms FROM v_op WHERE "
        "run_id = 1\n    GROUP BY name ORDER BY ms DESC LIMIT 10\"\n"
        "  foretrain sql foretrain.db --csv \"SELECT * FROM v_exposed WHERE run_id = 1\" > "
        "exposed.csv");
  }

  // An error while a signal is pending counts as stopped: the query ended because of it.
  Result<Exit> Run() override {
    FT_TRY(CheckOptions());
    if (views_) return PrintViews();
    const StopSignals signals;
    const auto answer = QueryStore(store_, query_,
                                   {.max_rows = limit_,
                                    .max_seconds = timeout_,
                                    .max_text_bytes = static_cast<std::size_t>(max_text_),
                                    .cancelled = [] { return StopSignal() != 0; }});
    if (!answer.has_value() && StopSignal() != 0) return ExitOfSignal(StopSignal());
    if (!answer.has_value()) return tl::unexpected<Error>(answer.error());
    if (json_) {
      PrintJson(*answer);
    } else {
      Print(*answer);
    }
    return Exit::kDone;
  }

 private:
  Result<void> CheckOptions() const {
    const auto within = [](const char* option, auto value, auto most) -> Result<void> {
      if (value > 0 && value <= most) return {};
      return Fail(ErrorCode::kInvalidArgument, std::string(option) + ": " +
                                                   NumberText(static_cast<double>(value)) +
                                                   "; give a number above 0 and at most " +
                                                   NumberText(static_cast<double>(most)));
    };
    FT_TRY(within("--limit", limit_, kMaxLimit));
    FT_TRY(within("--timeout", timeout_, 86'400.0));
    FT_TRY(within("--max-text", max_text_, kMaxTextBytes));
    if (views_ && !query_.empty()) {
      return Fail(ErrorCode::kInvalidArgument, "--views and a SELECT: give one of them");
    }
    if (!views_ && (store_.empty() || query_.empty())) {
      return Fail(ErrorCode::kInvalidArgument,
                  "sql takes a store and a SELECT in quotes, such as: foretrain sql " +
                      std::string(kDefaultStore) + " \"SELECT * FROM v_run\"");
    }
    return {};
  }

  // A store that is given is opened, so that a wrong name is told.
  Result<Exit> PrintViews() const {
    if (!store_.empty()) {
      FT_TRY(StoreReader::Open(store_).map([](const StoreReader&) {}));
    }
    const std::vector<QueryView> views = QueryViews();
    if (json_) {
      PrintJson(views);
      return Exit::kDone;
    }
    Table table({"view", "column", "meaning"});
    table.Wrap("meaning");
    for (const QueryView& view : views) {
      if (!csv_) table.AddRow({std::string(view.name), "", "one row per " + std::string(view.row)});
      for (const QueryColumn& column : view.columns) {
        table.AddRow(
            {csv_ ? std::string(view.name) : "", std::string(column.name), Plain(column.meaning)});
      }
    }
    Show(table);
    return Exit::kDone;
  }

  // Pages mark words of SQL with backquotes; a terminal needs none.
  static std::string Plain(std::string_view text) {
    std::string plain(text);
    std::erase(plain, '`');
    return plain;
  }

  static void PrintJson(const std::vector<QueryView>& views) {
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Name("views").BeginArray();
    for (const QueryView& view : views) {
      json.BeginObject().Field("view", view.name).Field("row", view.row);
      json.Name("columns").BeginArray();
      for (const QueryColumn& column : view.columns) {
        json.BeginObject().Field("name", column.name);
        json.Field("meaning", Plain(column.meaning)).EndObject();
      }
      json.EndArray().EndObject();
    }
    std::puts(json.EndArray().EndObject().Take().c_str());
  }

  // Rows are arrays, since two columns may have one name.
  static void PrintJson(const QueryAnswer& answer) {
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Field("columns", answer.columns);
    json.Name("rows").BeginArray();
    for (const std::vector<QueryValue>& row : answer.rows) {
      json.BeginArray();
      for (const QueryValue& value : row) Write(json, value);
      json.EndArray();
    }
    std::puts(json.EndArray().Field("more", answer.more).EndObject().Take().c_str());
  }

  static void Write(JsonWriter& json, const QueryValue& value) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      json.Integer(*integer);
    } else if (const auto* real = std::get_if<double>(&value)) {
      json.Number(*real);
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      json.String(*text);
    } else {
      json.Null();
    }
  }

  // A number for reading: six significant digits, all digits of its integer part.
  static std::string ShortText(double value) {
    if (!std::isfinite(value) ||
        (value != 0 && (std::fabs(value) < 1e-4 || std::fabs(value) >= 1e15))) {
      return NumberText(value);
    }
    const int digits =
        value == 0 ? 1 : static_cast<int>(std::floor(std::log10(std::fabs(value)))) + 1;
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", std::clamp(6 - digits, 0, 9), value);
    std::string out = text;
    if (out.find('.') != std::string::npos) {
      out.erase(out.find_last_not_of('0') + 1);
      if (out.ends_with('.')) out.pop_back();
    }
    return out;
  }

  std::string CellOf(const QueryValue& value) const {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
    if (const auto* real = std::get_if<double>(&value)) {
      return csv_ || wide_ ? NumberText(*real) : ShortText(*real);
    }
    if (const auto* text = std::get_if<std::string>(&value)) return *text;
    return csv_ ? "" : "-";
  }

  // The last line says that rows are missing; in CSV, where it would be a row, it goes to stderr.
  void Print(const QueryAnswer& answer) const {
    std::vector<std::vector<std::string>> cells;
    for (const std::vector<QueryValue>& row : answer.rows) {
      std::vector<std::string>& line = cells.emplace_back();
      for (const QueryValue& value : row) line.push_back(CellOf(value));
    }
    if (csv_) {
      PrintCsv(answer.columns, cells);
    } else {
      PrintCells(answer, std::move(cells));
    }
    if (answer.more) {
      std::fprintf(csv_ ? stderr : stdout, "only the first %lld rows; --limit N prints more\n",
                   static_cast<long long>(limit_));
    }
  }

  // Not by Table, whose titles give the alignment and whose cells lose long texts.
  static void PrintCsv(const std::vector<std::string>& columns,
                       const std::vector<std::vector<std::string>>& cells) {
    const auto print = [](const std::vector<std::string>& line) {
      std::string text;
      for (std::size_t i = 0; i < line.size(); ++i) text += (i == 0 ? "" : ",") + CsvCell(line[i]);
      std::fputs((text + "\n").c_str(), stdout);
    };
    print(columns);
    for (const std::vector<std::string>& line : cells) print(line);
  }

  // `text` in one line: line breaks, as in JSON, are spaces.
  static std::string LineOf(std::string text) {
    for (char& c : text) {
      if (c == '\n' || c == '\r' || c == '\t') c = ' ';
    }
    return Printable(text, kMaxTextBytes);
  }

  // `text` in one line of at most `width` characters; 0: no limit.
  static std::string Fitted(const std::string& text, int width) {
    const std::string line = LineOf(text);
    if (width == 0 || TextWidth(line) <= width) return line;
    std::size_t end = 0;
    for (int seen = 0; end < line.size() && seen < width - 3; ++seen) {
      end += std::max<std::size_t>(1, Utf8Bytes(std::string_view(line).substr(end)));
    }
    return line.substr(0, end) + "...";
  }

  // A table if all its columns have room, else one line a value.
  void PrintCells(const QueryAnswer& answer, std::vector<std::vector<std::string>> cells) const {
    const std::size_t columns = answer.columns.size();
    const int room = LineWidth();
    std::vector<bool> number(columns, true);
    std::vector<int> widths(columns);
    for (std::size_t c = 0; c < columns; ++c) {
      widths[c] = TextWidth(LineOf(answer.columns[c]));
      for (std::size_t r = 0; r < cells.size(); ++r) {
        number[c] = number[c] && !std::holds_alternative<std::string>(answer.rows[r][c]);
        widths[c] = std::max(widths[c], TextWidth(LineOf(cells[r][c])));
      }
    }
    const int limit = TextLimit(widths, number, room);
    if (limit < 0) return PrintRecords(answer.columns, cells, room);
    std::vector<std::string> titles;
    for (std::size_t c = 0; c < columns; ++c) {
      titles.push_back((number[c] ? ">" : "") + Fitted(answer.columns[c], number[c] ? 0 : limit));
      if (!number[c] && titles.back().starts_with('>')) titles.back().insert(0, " ");
    }
    Table table(titles);
    for (std::vector<std::string>& line : cells) {
      for (std::size_t c = 0; c < columns; ++c) line[c] = Fitted(line[c], number[c] ? 0 : limit);
      table.AddRow(std::move(line));
    }
    std::fputs(table.Text(0, 0).c_str(), stdout);
  }

  // Width of the columns of texts at which a line has at most `room` characters, numbers whole; 0:
  // no limit; -1: there is none.
  static int TextLimit(const std::vector<int>& widths, const std::vector<bool>& number, int room) {
    if (room == 0) return 0;
    for (int limit = kMaxTextWidth; limit >= kMinTextWidth; --limit) {
      int line = -kGap;
      for (std::size_t c = 0; c < widths.size(); ++c) {
        line += kGap + (number[c] ? widths[c] : std::min(widths[c], limit));
      }
      if (line <= room) return limit;
    }
    return -1;
  }

  static void PrintRecords(const std::vector<std::string>& columns,
                           const std::vector<std::vector<std::string>>& cells, int room) {
    int names = 0;
    for (const std::string& column : columns)
      names = std::max(names, TextWidth(Fitted(column, 30)));
    for (std::size_t r = 0; r < cells.size(); ++r) {
      std::printf("row %zu\n", r + 1);
      for (std::size_t c = 0; c < columns.size(); ++c) {
        const std::string name = Pad(Fitted(columns[c], 30), names, Align::kLeft);
        const int left = std::max(kMinTextWidth, room - names - 2 * kGap);
        std::printf("  %s  %s\n", name.c_str(), Fitted(cells[r][c], left).c_str());
      }
    }
    if (cells.empty()) std::puts("no rows");
  }

  std::string store_;
  std::string query_;
  bool views_ = false;
  std::int64_t limit_ = 1000;
  double timeout_ = 30;
  std::int64_t max_text_ = 65'536;
};

}  // namespace

std::unique_ptr<Command> MakeSql() { return std::make_unique<Sql>(); }

}  // namespace foretrain
