#include "ui/view/screens/run_screen.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/io/file_system.h"
#include "base/units.h"
#include "sim/config/schedule/schedule_csv.h"
#include "ui/view/lanes/segments.h"
#include "ui/view/widgets/widgets.h"

namespace foretrain::ui {
namespace {

constexpr float kMargin = 16.0F;
constexpr float kForm = 460.0F;    // width
constexpr float kOutput = 132.0F;  // height
constexpr float kTile = 132.0F;
constexpr std::size_t kShownLines = 6;
constexpr double kFollowS = 1.0;  // between two looks at a run of another process

const std::vector<std::string>& Devices() {
  static const std::vector<std::string> devices{"cpu", "cuda"};
  return devices;
}

Colour PhaseColour(const Theme& theme, RunPhase phase) {
  if (phase == RunPhase::kFailed || phase == RunPhase::kStopped) return theme.amber;
  return phase == RunPhase::kReady ? theme.muted : theme.text;
}

std::string LossText(double loss) { return fmt::format("{:.4f}", loss); }

void DrawTile(Canvas& canvas, Point at, std::string_view name, const std::string& value) {
  canvas.Text(canvas.fonts.small, at, canvas.theme.muted, name);
  canvas.Text(canvas.fonts.mono_large, {at.x, at.y + canvas.Px(16)}, canvas.theme.text,
              value.empty() ? "-" : value);
}

// O(steps) in each frame, which is small against drawing.
std::vector<double> LossesOf(const RunModel& run) {
  std::vector<double> losses;
  for (const StepLine& step : run.log.steps()) losses.push_back(step.loss);
  return losses;
}

}  // namespace

// The form starts from the run that is shown, so that it can be repeated with other options.
RunScreen::RunScreen(DesktopState& desktop) : desktop_(desktop) {
  form_.model = "gpt-10m";
  const std::string& store = desktop.session.shown().path;
  form_.store = store.empty() ? "foretrain.db" : store;
  if (!desktop.session.input().predicted.has_value() &&
      !desktop.session.input().measured.has_value())
    return;
  const auto& run = desktop.session.input().measured.has_value()
                        ? desktop.session.input().measured
                        : desktop.session.input().predicted;
  if (!run->model.empty()) form_.model = run->model;
}

// A plan that was pinned since fills the form once; later edits of the user stay.
void RunScreen::FollowPinned() {
  if (pinned_number_ == desktop_.selection.pin_number() || !desktop_.selection.pinned().has_value())
    return;
  pinned_number_ = desktop_.selection.pin_number();
  form_.model = desktop_.selection.pinned()->model.name;
  form_.ranks = fmt::format("{}", desktop_.selection.pinned()->plan.World());
  form_.options = OptionsOf(desktop_.selection.pinned()->plan);
  slots_ = desktop_.selection.pinned()->plan.slots;
}

// The options name the file of a custom schedule. One that was edited here has none yet.
void RunScreen::SaveSchedule() {
  if (slots_.empty() || form_.options.find(slots_.file()) == std::string::npos) return;
  PosixFileSystem files;
  const auto info = files.Stat(slots_.file());
  if (info.has_value() && info->kind != FileKind::kMissing) return;
  // A failure is the run's own error: it names the file that it cannot read.
  (void)WriteFileAtomically(files, slots_.file(), ToCsv(slots_.draft()));
}

// Reads what the process has written since the last frame. Never waits.
void RunScreen::Poll() {
  if (process_ == nullptr) return;
  const TrainingNews news = process_->Poll();
  const bool ended = news.end.has_value();
  Take(news, run_);
  if (ended) process_.reset();
}

// Shows a run of the open store, and reads it again about once a second while it goes on.
void RunScreen::Follow(RunId run) {
  started_store_ = desktop_.session.shown().path;
  if (follower_ == nullptr) {
    follower_ = std::make_unique<Follower>(
        [read = desktop_.services.read_progress](const auto& of, const auto&) {
          return read(of.first, of.second);
        });
  }
  run_ = {};
  run_.phase = RunPhase::kStarting;
  run_.followed = run;
  follower_->Ask({started_store_, run});
}

void RunScreen::TakeFollowed(double elapsed_s) {
  if (run_.followed == 0 || follower_ == nullptr) return;
  if (auto news = follower_->Take()) {
    if (news->answer.has_value()) {
      run_ = ModelOf(*news->answer);
    } else {
      run_.phase = RunPhase::kFailed;
      run_.reason = news->answer.error().message;
    }
  }
  followed_s_ += elapsed_s;
  if (!run_.IsGoing() || followed_s_ < kFollowS || follower_->IsBusy()) return;
  followed_s_ = 0;
  follower_->Ask({started_store_, run_.followed});
}

// The arguments are those that the form shows, so that the run can be repeated in a terminal.
void RunScreen::StartRun() {
  form_.device = Devices()[static_cast<std::size_t>(device_)];
  const auto arguments = ArgumentsOf(form_);
  if (!arguments.has_value()) return FailToStart(arguments.error(), run_);
  SaveSchedule();
  // A run that does not start is shown as failed, with the reason.
  auto process = desktop_.services.start_training(*arguments);
  if (!process.has_value()) return FailToStart(process.error(), run_);
  process_ = *std::move(process);
  process_->EndsWithDesktop(ends_with_desktop_);
  started_store_ = form_.store;
  Start(form_, run_);
}

// The first call ends the run at a step boundary, the second at once.
void RunScreen::StopRun() {
  process_->Stop();
  run_.phase = RunPhase::kStopping;
}

// Opens the run by its number in the store. The run is written there by its own process.
void RunScreen::Compare() {
  const RunId run = run_.followed != 0 ? run_.followed : run_.log.run().value_or(0);
  desktop_.stores.wanted = StoreRequest{started_store_, run, 0};
  desktop_.navigation.GoTo("compare");
}

// Form at the left; state, curves and output at the right. Curves give way first in a low window.
void RunScreen::Draw(const ScreenFrame& frame) {
  FollowPinned();
  Poll();
  TakeFollowed(frame.input.elapsed_s);
  Canvas& canvas = frame.canvas;
  const float margin = canvas.Px(kMargin);
  const bool wide = frame.box.Width() > canvas.Px(900);
  const float form = wide ? canvas.Px(kForm) : 0.52F * frame.box.Width();
  const Box left{frame.box.x0, frame.box.y0, frame.box.x0 + form, frame.box.y1};
  canvas.Fill({left.x1, left.y0, left.x1 + 1.0F, left.y1}, canvas.theme.line);
  DrawForm(frame,
           {left.x0 + canvas.Px(4), left.y0 + canvas.Px(4), left.x1 - canvas.Px(4), left.y1});
  const Box right{left.x1 + margin, left.y0 + canvas.Px(12), frame.box.x1 - margin,
                  frame.box.y1 - canvas.Px(10)};
  // Too narrow for curves: the form alone.
  if (right.Width() < canvas.Px(60)) return;
  canvas.PushClip(right);
  const float y = DrawState(frame, right);
  const float output = std::min(canvas.Px(kOutput), 0.4F * (right.y1 - y));
  const Box curves{right.x0, y + canvas.Px(8), right.x1, right.y1 - output};
  if (curves.Height() > canvas.Px(70)) DrawCurves(canvas, curves);
  DrawOutput(frame, {right.x0, right.y1 - output, right.x1, right.y1});
  canvas.PopClip();
}

// The command line below the fields follows every edit, or says what is wrong with it.
void RunScreen::DrawForm(const ScreenFrame& frame, const Box& box) {
  BeginPanel(frame, box, "##run.form");
  Title(frame, "train on this machine");
  if (desktop_.selection.pinned().has_value()) {
    MutedLabel(frame, "pinned: " + desktop_.selection.pinned()->title);
  } else {
    Paragraph(frame, "No plan is pinned: the options below are all there is.");
  }
  TextField(frame, "model", &form_.model, "name or config.json");
  TextField(frame, "data", &form_.data, "a text, or a shard of tokens");
  TextField(frame, "steps", &form_.steps);
  TextField(frame, "ranks", &form_.ranks, "one a core");
  Combo(frame, "device", &device_, Devices());
  TextField(frame, "store", &form_.store);
  TextField(frame, "options", &form_.options, "--dp 2 --micro-batch 4");
  TextField(frame, "save in", &form_.save, "folder of checkpoints");
  TextField(frame, "resume", &form_.resume, "folder to go on from");
  form_.device = Devices()[static_cast<std::size_t>(device_)];
  const auto arguments = ArgumentsOf(form_);
  Paragraph(frame, arguments.has_value() ? "foretrain " + JoinWords(*arguments)
                                         : arguments.error().message);
  DrawButtons(frame);
  EndPanel();
}

// One run at a time. If `start_training` is empty, as in a picture, there are no buttons.
void RunScreen::DrawButtons(const ScreenFrame& frame) {
  if (!desktop_.services.start_training) {
    Paragraph(frame, "Runs can be started from the desktop's window alone.");
    return;
  }
  const bool goes = process_ != nullptr;
  const RunId other = RunningOf(desktop_.session.runs());
  const bool follows = !goes && other != 0 && desktop_.services.read_progress != nullptr;
  if (follows && other != run_.followed) {
    if (Button(frame, fmt::format("Follow run {}", other).c_str())) Follow(other);
    Tooltip(frame, "Another process records it into the open store");
  }
  if (Button(frame, "Start", !goes)) StartRun();
  ImGui::SameLine();
  const bool stopping = run_.phase == RunPhase::kStopping;
  if (Button(frame, stopping ? "Stop at once" : "Stop", process_ != nullptr)) StopRun();
  ImGui::SameLine();
  if (Button(frame, "Open in Compare", run_.CanCompare())) Compare();
  if (Toggle(frame, "ends with the desktop", &ends_with_desktop_) && process_ != nullptr) {
    process_->EndsWithDesktop(ends_with_desktop_);
  }
}

// Returns where the next part starts.
float RunScreen::DrawState(const ScreenFrame& frame, const Box& box) {
  Canvas& canvas = frame.canvas;
  const Theme& theme = canvas.theme;
  const std::size_t steps = run_.log.steps().size();
  float x = box.x0 +
            canvas.Text(canvas.fonts.bold, {box.x0, box.y0 + canvas.Px(4)},
                        PhaseColour(theme, run_.phase), Name(run_.phase)) +
            canvas.Px(12);
  std::string text = run_.wanted_steps > 0 ? fmt::format("step {} of {}", steps, run_.wanted_steps)
                                           : fmt::format("{} steps", steps);
  if (const auto left = run_.SecondsLeft()) text += ", " + FormatSeconds(*left) + " left";
  if (run_.phase == RunPhase::kReady) text = "Give it data and press Start.";
  canvas.Text(canvas.fonts.small, {x, box.y0 + canvas.Px(6)}, theme.muted, text);
  float y = box.y0 + canvas.Px(28);
  const Box bar{box.x0, y, box.x1, y + canvas.Px(6)};
  canvas.Fill(bar, Mixed(theme.panel, theme.text, 0.08F), canvas.Px(3));
  canvas.Fill({bar.x0, bar.y0, bar.x0 + static_cast<float>(run_.Progress()) * bar.Width(), bar.y1},
              theme.muted, canvas.Px(3));
  y += canvas.Px(14);
  if (!run_.reason.empty()) {
    canvas.Text(canvas.fonts.text, {box.x0, y}, PhaseColour(theme, run_.phase),
                Shortened(canvas, canvas.fonts.text, run_.reason, box.Width()));
    const bool over =
        Box{box.x0, y, box.x1, y + canvas.Px(20)}.Contains(frame.input.x, frame.input.y);
    if (over) DrawTooltipOnTop(frame, {std::string(Name(run_.phase)), run_.reason, {}});
    y += canvas.Px(24);
  }
  y += canvas.Px(6);
  const auto step_s = run_.MedianStepS();
  const auto rate = run_.TokensPerS();
  const std::vector<std::pair<std::string, std::string>> tiles{
      {"loss", steps > 0 ? LossText(run_.log.steps().back().loss) : ""},
      {"tokens/s", rate.has_value() ? FormatSi(*rate, "") : ""},
      {"step", step_s.has_value() ? FormatSeconds(*step_s) : ""},
      {"memory", run_.peak_resident_bytes > 0 ? FormatBytes(run_.peak_resident_bytes) : ""}};
  const float width = std::min(canvas.Px(kTile), box.Width() / static_cast<float>(tiles.size()));
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    DrawTile(canvas, {box.x0 + static_cast<float>(i) * width, y}, tiles[i].first, tiles[i].second);
  }
  return y + canvas.Px(44);
}

// The loss, and below it tokens/s and memory, beside each other if the width allows. A low window
// shows the loss alone.
void RunScreen::DrawCurves(Canvas& canvas, const Box& box) {
  const float gap = canvas.Px(10);
  const bool beside = box.Width() > canvas.Px(560);
  const bool all = box.Height() > canvas.Px(beside ? 260 : 300);
  const float split = all ? std::round(box.y0 + (beside ? 0.55F : 0.4F) * box.Height()) : box.y1;
  Box left{box.x0, split, box.x1, box.y1 - gap}, right = left;
  if (beside) {
    const float middle = std::round((box.x0 + box.x1) / 2);
    left.x1 = middle - gap;
    right.x0 = middle;
  } else {
    right.y0 = std::round((split + box.y1) / 2);
    left.y1 = right.y0 - gap;
  }
  const auto expected = static_cast<std::size_t>(std::max<std::int64_t>(0, run_.wanted_steps));
  DrawCurve(canvas, {box.x0, box.y0, box.x1, split - gap},
            {"loss", LossesOf(run_), expected, LossText});
  if (!all) return;
  Curve rate{"tokens/s", {}, expected, [](double value) { return FormatSi(value, ""); }};
  for (const StepLine& step : run_.log.steps()) rate.values.push_back(step.tokens_per_s);
  rate.forecast = run_.PredictedTokensPerS();
  rate.compared = run_.TokensPerS();
  DrawCurve(canvas, left, rate);
  Curve memory{"memory",
               {run_.resident_bytes.begin(), run_.resident_bytes.end()},
               run_.resident_bytes.size(),
               [](double value) { return FormatBytes(std::llround(value)); }};
  memory.forecast = run_.PredictedResidentBytes();
  if (run_.peak_resident_bytes > 0) {
    memory.compared = static_cast<double>(run_.peak_resident_bytes);
  }
  DrawCurve(canvas, right, memory);
}

// Folds the values to one column a pixel with its extremes, so that a spike stays visible. The
// forecast is a dashed line; the heading tells the difference.
void RunScreen::DrawCurve(Canvas& canvas, const Box& box, const Curve& curve) {
  const Theme& theme = canvas.theme;
  const Box plot{box.x0 + canvas.Px(76), box.y0 + canvas.Px(22), box.x1, box.y1};
  if (plot.Height() < canvas.Px(24) || plot.Width() < canvas.Px(40)) return;
  std::string remark;
  if (curve.forecast.has_value() && !curve.values.empty()) {
    remark = AgainstForecast(curve.compared.value_or(curve.values.back()), *curve.forecast);
  }
  const float room = box.Width() - canvas.WidthOf(canvas.fonts.bold, curve.title) - canvas.Px(16);
  Heading(canvas, {box.x0, box.y0}, curve.title,
          Shortened(canvas, canvas.fonts.small, remark, std::max(0.0F, room)));
  canvas.Fill(plot, theme.lane);
  const std::vector<CurveColumn> columns =
      FoldCurve(curve.values, curve.expected, static_cast<int>(plot.Width()));
  if (columns.empty()) return DrawEmpty(canvas, plot, "nothing yet");
  double low = columns.front().low, high = columns.front().high;
  for (const CurveColumn& column : columns) {
    low = std::min(low, column.low);
    high = std::max(high, column.high);
  }
  if (curve.forecast.has_value()) {
    low = std::min(low, *curve.forecast);
    high = std::max(high, *curve.forecast);
  }
  // A flat curve gets a margin too, so that the scale is never empty.
  const double margin = std::max(0.08 * (high - low), 1e-3 * std::max(1e-9, std::abs(high)));
  low -= margin;
  high += margin;
  const auto y_of = [&](double value) {
    return plot.y1 - static_cast<float>((value - low) / (high - low)) * plot.Height();
  };
  const int marks = plot.Height() > canvas.Px(90) ? 4 : 2;
  for (int i = 0; i < marks; ++i) {
    const double value = low + (high - low) * (i + 0.5) / marks;
    const float y = std::round(y_of(value));
    canvas.Fill({plot.x0, y, plot.x1, y + 1.0F}, theme.grid);
    canvas.TextIn(canvas.fonts.mono_small,
                  {box.x0, y - canvas.Px(8), plot.x0 - canvas.Px(6), y + canvas.Px(8)},
                  Align::kRight, theme.faint, curve.format(value));
  }
  // Each column adds its first value, its extremes and its last value, so that the line has every
  // spike.
  std::vector<Point> points;
  for (const CurveColumn& column : columns) {
    const float x = plot.x0 + static_cast<float>(column.column) + 0.5F;
    points.push_back({x, y_of(column.first)});
    if (column.low < std::min(column.first, column.last)) points.push_back({x, y_of(column.low)});
    if (column.high > std::max(column.first, column.last)) points.push_back({x, y_of(column.high)});
    if (column.last != column.first) points.push_back({x, y_of(column.last)});
  }
  canvas.PushClip(plot);
  if (curve.forecast.has_value()) {
    const float y = std::round(y_of(*curve.forecast)) + 0.5F;
    canvas.DashedLine({plot.x0, y}, {plot.x1, y}, theme.predicted, canvas.Px(5));
  }
  canvas.Lines(points, theme.text, 1.6F * canvas.scale);
  canvas.Dot(points.back(), canvas.Px(3), theme.text);
  canvas.PopClip();
}

// The last lines that fit.
void RunScreen::DrawOutput(const ScreenFrame& frame, const Box& box) {
  Canvas& canvas = frame.canvas;
  Heading(canvas, {box.x0, box.y0}, "output",
          run_.IsGoing() && run_.log.lines().empty() ? "steps alone so far" : "");
  const float line = canvas.Px(17);
  const auto fit = static_cast<std::size_t>(std::max(0.0F, (box.Height() - canvas.Px(22)) / line));
  const std::size_t shown = std::min({fit, kShownLines, run_.log.lines().size()});
  float y = box.y0 + canvas.Px(22);
  for (std::size_t i = run_.log.lines().size() - shown; i < run_.log.lines().size(); ++i) {
    canvas.Text(canvas.fonts.mono_small, {box.x0, y}, canvas.theme.muted,
                Shortened(canvas, canvas.fonts.mono_small, run_.log.lines()[i], box.Width()));
    y += line;
  }
}

std::vector<HelpLine> RunScreen::Help() const {
  return {{"Start", "train in a process of its own; it goes on when the desktop is closed"},
          {"Stop", "end at a step boundary; a second time, at once"},
          {"Open in Compare", "compare the stored run with its forecast"}};
}

}  // namespace foretrain::ui
