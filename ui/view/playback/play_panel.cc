#include "ui/view/playback/play_panel.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/table.h"
#include "base/units.h"
#include "ui/view/lanes/segments.h"
#include "ui/view/widgets/widgets.h"

namespace foretrain::ui {
namespace {

constexpr float kPad = 10.0F;
constexpr float kRow = 28.0F;
constexpr float kMemory = 300.0F;      // width
constexpr float kMinQueues = 270.0F;   // narrower panels show the queues alone
constexpr float kAllColumns = 520.0F;  // narrower tables of queues leave some out

constexpr std::array<double, 3> kSpeeds = {0.25, 1.0, 4.0};

std::string RankName(int rank) { return fmt::format("rank {}", rank); }

// Places rows of choices from left to right, and in a new line where one does not fit.
class Flow {
 public:
  Flow(const ScreenFrame& frame, const Box& box)
      : frame_(frame), box_(box), x_(box.x0), y_(box.y0 + frame.canvas.Px(4)) {}

  // Returns whether another choice was made.
  bool Choose(const std::vector<std::string>& names, int* chosen) {
    Make(SegmentsWidth(frame_.canvas, names));
    const int before = *chosen;
    x_ = Segments(frame_, {x_, y_}, names, chosen) + frame_.canvas.Px(12);
    return *chosen != before;
  }
  void Text(const std::string& text) {
    Canvas& canvas = frame_.canvas;
    const float width = canvas.WidthOf(canvas.fonts.mono_small, text);
    Make(width);
    if (x_ + width > box_.x1) return;
    canvas.TextIn(canvas.fonts.mono_small,
                  {x_, y_, x_ + width + canvas.Px(2), y_ + SegmentsHeight(canvas)}, Align::kLeft,
                  canvas.theme.text, text);
    x_ += width + canvas.Px(12);
  }
  float Bottom() const { return y_ + SegmentsHeight(frame_.canvas) + frame_.canvas.Px(4); }

 private:
  void Make(float width) {
    if (x_ == box_.x0 || x_ + width <= box_.x1) return;
    x_ = box_.x0;
    y_ += frame_.canvas.Px(kRow);
  }

  const ScreenFrame& frame_;
  const Box& box_;
  float x_, y_;
};

}  // namespace

void PlayPanel::Draw(const ScreenFrame& frame, const Box& box, const CompareModel& model,
                     std::uint64_t model_number, std::size_t lane, Playback& play) {
  Canvas& canvas = frame.canvas;
  if (model.lanes.empty() || !PlayedStepOf(model, play).has_value()) {
    return DrawEmpty(canvas, box, "There is no step to step through.");
  }
  const Box inner{box.x0 + canvas.Px(kPad), box.y0, box.x1 - canvas.Px(kPad), box.y1};
  const float top =
      DrawControls(frame, inner, model, Refresh(model, model_number, lane, play), play);
  Refresh(model, model_number, lane, play);  // the controls may have chosen another one
  const Box rest{box.x0, top, box.x1, box.y1};
  if (rest.Height() < canvas.Px(40)) return;
  if (!play.on) {
    return DrawEmpty(canvas, rest, "Space plays the step; the arrow keys go from op to op.");
  }
  Box queues = rest, memory = rest;
  const bool both = rest.Width() >= canvas.Px(kMinQueues + kMemory);
  if (both) queues.x1 = memory.x0 = std::round(rest.x1 - canvas.Px(kMemory));
  DrawQueues(frame, queues, model, play);
  if (both) DrawMemoryOf(frame, memory, model, play);
}

int PlayPanel::Refresh(const CompareModel& model, std::uint64_t model_number, std::size_t lane,
                       const Playback& play) {
  const int rank = play.rank.value_or(model.lanes[std::min(lane, model.lanes.size() - 1)].rank);
  const std::tuple of(model_number, SideOf(model, play), rank);
  if (moments_of_ != of) {
    moments_ = RankMoments(model, SideOf(model, play), rank);
    moments_of_ = of;
  }
  return rank;
}

// Commands, speed, run, ranks and the moment. Returns where they end.
float PlayPanel::DrawControls(const ScreenFrame& frame, const Box& box, const CompareModel& model,
                              int rank, Playback& play) const {
  Flow flow(frame, box);
  constexpr std::array kCommands = {PlayCommand::kToStart, PlayCommand::kBack, PlayCommand::kToggle,
                                    PlayCommand::kForward, PlayCommand::kToEnd};
  int command = -1;
  flow.Choose({"|< start", "< back", play.playing ? "pause" : "play", "next >", "end >|"},
              &command);
  if (command >= 0) Do(kCommands[static_cast<std::size_t>(command)], model, play);
  int speed = 0;
  for (std::size_t i = 0; i < kSpeeds.size(); ++i) {
    if (play.speed == kSpeeds[i]) speed = static_cast<int>(i);
  }
  if (flow.Choose({"slow", "normal", "fast"}, &speed)) {
    play.speed = kSpeeds[static_cast<std::size_t>(speed)];
  }
  if (model.HasBoth()) {
    int side = static_cast<int>(Index(SideOf(model, play)));
    const SideNames names = model.Names();
    if (flow.Choose({std::string(names[0]), std::string(names[1])}, &side)) {
      play.side = kSides[static_cast<std::size_t>(side)];
    }
  }
  if (model.lanes.size() > 1) {
    int alone = play.rank.has_value() ? 1 : 0;
    if (flow.Choose({"all ranks", RankName(rank)}, &alone)) {
      play.rank = alone == 1 ? std::optional(rank) : std::nullopt;
    }
  }
  const PlayedStep step = *PlayedStepOf(model, play);
  if (play.on) {
    flow.Text(fmt::format("{} of {}", FormatSeconds((play.at_ns - step.start_ns) / kNsPerSecond),
                          FormatSeconds((step.end_ns - step.start_ns) / kNsPerSecond)));
  }
  return flow.Bottom();
}

void PlayPanel::DrawQueues(const ScreenFrame& frame, const Box& box, const CompareModel& model,
                           const Playback& play) const {
  const std::vector<QueueText> texts =
      TextsOf(model, moments_, moments_.QueuesAt(model, play.at_ns), play.at_ns);
  if (texts.empty()) return DrawEmpty(frame.canvas, box, "No op of this rank is in memory.");
  Canvas& canvas = frame.canvas;
  const bool all = box.Width() >= canvas.Px(kAllColumns);
  const float room = all ? (box.Width() - canvas.Px(330)) / 2 : box.Width() - canvas.Px(210);
  const auto fitted = [&](const std::string& text) {
    return Shortened(canvas, canvas.fonts.text, text, std::max(canvas.Px(60), room));
  };
  std::vector<std::string> columns{"queue", "now", "since"};
  if (all) columns.insert(columns.end(), {"left", "next", "to go"});
  BeginPanel(frame, box, "##play.queues");
  if (BeginTable(frame, "queues", columns)) {
    for (const QueueText& text : texts) {
      ImGui::TableNextRow();
      Cell(frame, text.queue);
      Cell(frame, fitted(text.runs));
      NumberCell(frame, text.since,
                 text.starts || text.ends ? canvas.theme.amber : canvas.theme.text);
      if (!all) continue;
      NumberCell(frame, text.left);
      Cell(frame, fitted(text.next));
      NumberCell(frame, text.to_go);
    }
    EndTable();
  }
  EndPanel();
}

void PlayPanel::DrawMemoryOf(const ScreenFrame& frame, const Box& box, const CompareModel& model,
                             const Playback& play) const {
  const auto memory = moments_.MemoryAt(model, play.at_ns);
  if (!memory.has_value()) return DrawEmpty(frame.canvas, box, "No memory was recorded.");
  BeginPanel(frame, box, "##play.memory");
  if (BeginTable(frame, "live", {"live tensors", "bytes", "now"})) {
    for (const CategoryText& text : foretrain::ui::TextsOf(*memory)) {
      ImGui::TableNextRow();
      Cell(frame, text.name);
      NumberCell(frame, text.bytes);
      NumberCell(frame, text.change, frame.canvas.theme.amber);
    }
    EndTable();
  }
  EndPanel();
}

std::string PlayPanel::TextOf(const CompareModel& model, std::uint64_t model_number,
                              std::size_t lane, const Playback& play, bool csv) {
  if (!play.on || model.lanes.empty() || !PlayedStepOf(model, play).has_value()) return {};
  Refresh(model, model_number, lane, play);
  Table table({"what", "now", "since", ">left", "next", ">to go"});
  for (const QueueText& text :
       foretrain::ui::TextsOf(model, moments_, moments_.QueuesAt(model, play.at_ns), play.at_ns)) {
    table.AddRow({text.queue, text.runs, text.since, text.left, text.next, text.to_go});
  }
  if (const auto memory = moments_.MemoryAt(model, play.at_ns)) {
    for (const CategoryText& text : foretrain::ui::TextsOf(*memory)) {
      table.AddRow({text.name, text.bytes, text.change, "", "", ""});
    }
  }
  return csv ? table.Csv() : table.Text(0, 0);
}

}  // namespace foretrain::ui
