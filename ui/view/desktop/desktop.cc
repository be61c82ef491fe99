#include "ui/view/desktop/desktop.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "ui/view/desktop/input.h"
#include "ui/view/desktop/shell_parts.h"
#include "ui/view/lanes/segments.h"
#include "ui/view/widgets/widgets.h"

namespace foretrain::ui {
namespace {

// In pixels at scale 1.
constexpr float kRail = 76.0F;
constexpr float kItem = 58.0F;
constexpr float kMinItem = 36.0F;
constexpr float kBar = 42.0F;
constexpr float kStrip = 68.0F;
constexpr float kNotice = 24.0F;
constexpr float kStatus = 26.0F;
constexpr float kStore = 180.0F;
constexpr float kHelp = 54.0F;
constexpr std::size_t kMaxNotices = 4;

// `icon` as UTF-8, three bytes as all of the icons' range takes.
std::string Utf8(char32_t icon) {
  return {static_cast<char>(0xE0 | icon >> 12), static_cast<char>(0x80 | (icon >> 6 & 0x3F)),
          static_cast<char>(0x80 | (icon & 0x3F))};
}

Theme ThemeOf(const DesktopState& state) { return state.light ? LightTheme() : DarkTheme(); }

}  // namespace

Desktop::Desktop(std::unique_ptr<const CompareInput> input, const CompareOptions& options)
    : state_(std::move(input), options), stores_(state_), screens_(ViewTable().size()) {
  const auto compare = FindView("compare");
  if (compare.has_value()) chosen_ = *compare;
}

Result<void> Desktop::Show(std::string_view name) {
  FT_ASSIGN(chosen_, FindView(name));
  return {};
}

// A view of runs gives way to the panel of stores if no run is open.
bool Desktop::ShowsStores() const {
  const CompareInput& input = state_.session.input();
  const bool runs = input.predicted.has_value() || input.measured.has_value();
  return state_.navigation.shows_stores() || (ViewTable()[chosen_].strip && !runs);
}

// Screens are made when they are first shown and kept, so that each keeps its state while others
// are shown.
Screen& Desktop::screen() {
  if (ShowsStores()) return stores_;
  std::unique_ptr<Screen>& screen = screens_[chosen_];
  if (screen == nullptr) screen = ViewTable()[chosen_].make(state_);
  return *screen;
}

CompareScreen& Desktop::compare() {
  const std::size_t place = FindView("compare").value();
  std::unique_ptr<Screen>& screen = screens_[place];
  if (screen == nullptr) screen = ViewTable()[place].make(state_);
  return static_cast<CompareScreen&>(*screen);
}

bool Desktop::IsMoving() const {
  if (moving_ || state_.session.IsBuilding() || stores_.IsMoving()) return true;
  return screens_[chosen_] != nullptr && screens_[chosen_]->IsMoving();
}

bool Desktop::IsWatching() const {
  if (ImGui::GetIO().WantTextInput) return true;
  return screens_[chosen_] != nullptr && screens_[chosen_]->IsWatching();
}

Colour Desktop::ground() const { return ThemeOf(state_).ground; }

// Cuts the window from top to bottom: bar, strip, notices, screen, status. Boxes are whole pixels,
// and in a low window the screen shrinks first.
Desktop::Parts Desktop::PartsOf(const ViewSize& size, std::size_t notices) const {
  const auto px = [&size](float units) { return std::round(units * size.scale); };
  Parts parts;
  parts.window = {0.0F, 0.0F, std::floor(size.width), std::floor(size.height)};
  parts.rail = {0.0F, 0.0F, std::min(parts.window.x1, px(kRail)), parts.window.y1};
  float top = 0.0F;
  const auto cut = [&](float height) {
    const Box box{parts.rail.x1, top, parts.window.x1, std::min(parts.window.y1, top + height)};
    top = box.y1;
    return box;
  };
  parts.bar = cut(px(kBar));
  const bool strip = ViewTable()[chosen_].strip && !state_.session.model().numbers.empty();
  parts.strip = cut(strip ? px(kStrip) : 0.0F);
  parts.notices = cut(px(kNotice) * static_cast<float>(notices));
  const float bottom = std::max(top, parts.window.y1 - px(kStatus));
  parts.screen = {parts.rail.x1, top, parts.window.x1, bottom};
  parts.status = {parts.rail.x1, bottom, parts.window.x1, parts.window.y1};
  const float middle = std::round((parts.bar.y0 + parts.bar.y1) / 2);
  const float right = parts.bar.x1 - px(14.0F);
  parts.help = {right - px(kHelp), middle - px(11.0F), right, middle + px(11.0F)};
  parts.store = {parts.rail.x1, bottom, parts.rail.x1 + px(kStore), parts.window.y1};
  return parts;
}

// At most kMaxNotices sentences, the last of which counts the rest, in as many lines as the width
// needs: notices must not push the screen out of the window.
std::vector<std::string> Desktop::NoticesOf(const Fonts& fonts, const ViewSize& size) const {
  std::vector<std::string> notices = state_.notices;
  if (ViewTable()[chosen_].strip) {
    const std::vector<std::string>& runs = state_.session.model().notices;
    notices.insert(notices.end(), runs.begin(), runs.end());
  }
  if (!fonts.missing.empty()) notices.push_back(fonts.missing);
  if (notices.size() > kMaxNotices) {
    const std::size_t more = notices.size() - kMaxNotices + 1;
    notices.resize(kMaxNotices - 1);
    notices.push_back("and " + std::to_string(more) + " more");
  }
  std::vector<std::string> lines;
  const float room = size.width - std::round(kRail * size.scale) - NoticeMargins(size.scale);
  for (const std::string& notice : notices) {
    for (std::string& line : Wrapped(fonts.small, notice, room)) lines.push_back(std::move(line));
  }
  return lines;
}

// All items are equally high. They shrink in a low window, down to kMinItem.
std::vector<Box> Desktop::ItemsOf(const Box& rail, float scale) const {
  const auto count = static_cast<float>(screens_.size());
  const float height = std::floor(
      std::clamp(rail.Height() / std::max(1.0F, count), kMinItem * scale, kItem * scale));
  std::vector<Box> items;
  for (std::size_t i = 0; i < screens_.size(); ++i) {
    const float y0 = rail.y0 + static_cast<float>(i) * height;
    items.push_back({rail.x0, y0, rail.x1 - 1.0F, y0 + height});
  }
  return items;
}

void Desktop::Choose(std::size_t view) {
  chosen_ = view;
  state_.navigation.ShowStores(false);
}

// Takes the keys of the shell and leaves the others for the screen.
void Desktop::OnKeys(InputFrame& input) {
  std::vector<char32_t> left;
  for (const char32_t typed : input.typed) {
    const std::vector<ViewEntry>& table = ViewTable();
    const auto view = std::find_if(table.begin(), table.end(),
                                   [typed](const ViewEntry& entry) { return entry.key == typed; });
    if (view != table.end()) {
      Choose(static_cast<std::size_t>(view - table.begin()));
    } else if (typed == U'o' || typed == U'O') {
      state_.navigation.ShowStores(!state_.navigation.shows_stores());
    } else if (typed == U't' || typed == U'T') {
      state_.light = !state_.light;
    } else if (typed == U'?' || typed == U'h' || typed == U'H') {
      help_ = !help_;
    } else {
      left.push_back(typed);
    }
  }
  input.typed = std::move(left);
  if (input.escape && help_) {
    help_ = false;
    input.escape = false;
  }
}

// Gives each part its share of the input. A drag belongs to the part where the button went down,
// even when the mouse leaves it.
InputFrame Desktop::Handle(const InputFrame& input, const Parts& parts,
                           const std::vector<Box>& items) {
  InputFrame own = ForScreen(input);
  // Any click closes the help.
  if (own.pressed && help_) {
    help_ = false;
    return WithoutMouse(own);
  }
  if (own.pressed && parts.help.Contains(own.x, own.y)) help_ = true;
  // With Ctrl, a number key chooses a view wherever the keyboard is.
  for (std::size_t i = 0; i < items.size(); ++i) {
    const int key = static_cast<int>(ViewTable()[i].key);
    if (input.control && ImGui::IsKeyPressed(key, false)) Choose(i);
    if (own.pressed && items[i].Contains(own.x, own.y)) Choose(i);
  }
  if (input.control && ImGui::IsKeyPressed(kKeyS, false)) {
    state_.wanted_picture = input.shift ? PictureForm::kSvg : PictureForm::kPng;
  }
  if (own.pressed && parts.store.Contains(own.x, own.y)) {
    state_.navigation.ShowStores(!state_.navigation.shows_stores());
  }
  OnKeys(own);
  if (own.pressed) screen_has_mouse_ = parts.screen.Contains(own.x, own.y);
  if (!input.down && !input.released) screen_has_mouse_ = false;
  if (help_ || (!screen_has_mouse_ && !parts.screen.Contains(own.x, own.y))) {
    return WithoutMouse(own);
  }
  return own;
}

// Keys of the screen first, then those of the shell.
std::vector<HelpLine> Desktop::HelpOf() {
  std::vector<HelpLine> lines = screen().Help();
  lines.push_back({"1 to 7", "views of the left rail; with Ctrl in a text field too"});
  lines.push_back({"O", "open another store, or another run of this one"});
  lines.push_back({"T", "dark or light"});
  lines.push_back({"Ctrl S", "save the window as PNG; with shift as SVG"});
  lines.push_back({"? or H", "this help"});
  return lines;
}

// Drawn after the screen, so that the shell's background covers what a screen draws outside its
// box.
void Desktop::DrawShell(Canvas& canvas, const Parts& parts, const std::vector<Box>& items,
                        const std::vector<std::string>& notices, const InputFrame& input) {
  std::vector<RailItem> rail;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const ViewEntry& view = ViewTable()[i];
    const std::string letter(view.title.substr(0, 1));
    rail.push_back({items[i], canvas.fonts.icons != nullptr ? Utf8(view.icon) : letter, view.title,
                    i == chosen_, items[i].Contains(input.x, input.y)});
  }
  DrawRail(canvas, parts.rail, rail);
  DrawTopBar(canvas, parts.bar, parts.help, state_, screen().Chips());
  if (!parts.strip.IsEmpty()) {
    DrawStrip(canvas, parts.strip, state_.session.model().numbers, {input.x, input.y});
  }
  canvas.Fill({parts.bar.x0, parts.notices.y0 - 1.0F, parts.bar.x1, parts.notices.y0},
              canvas.theme.line);
  DrawNotices(canvas, parts.notices, notices);
  DrawStatus(canvas, parts.status, parts.store, state_);
}

// The order of a frame: take what other threads have finished, place the parts, handle input, place
// again for the view that is now shown, draw. Input comes before drawing, so that a click shows in
// the same frame.
const FrameRecord& Desktop::Draw(const ViewSize& size, const Fonts& fonts, const InputFrame& input,
                                 ImageSink& images) {
  if (const auto wanted = state_.navigation.TakeView(); wanted.has_value()) {
    if (const auto view = FindView(*wanted); view.has_value()) Choose(*view);
  }
  if (const auto problem = state_.session.TakeModel(); problem.has_value()) {
    state_.notices.push_back("The runs stay as they were shown: " + *problem);
  }
  const std::vector<std::string> notices = NoticesOf(fonts, size);
  const Screen* const before = &screen();
  Parts parts = PartsOf(size, notices.size());
  const std::vector<Box> items = ItemsOf(parts.rail, size.scale);
  const InputFrame own = Handle(input, parts, items);
  parts = PartsOf(size, notices.size());  // of the view that is shown
  moving_ = &screen() != before;

  const Theme theme = ThemeOf(state_);
  ApplyStyle(theme, size.scale);
  record_ = {};
  state_.view = view();
  Canvas canvas{*ImGui::GetBackgroundDrawList(), theme, fonts, size.scale, record_};
  if (!parts.screen.IsEmpty()) screen().Draw({parts.screen, canvas, own, images});
  DrawShell(canvas, parts, items, notices, input);
  if (help_) {
    Canvas above{*ImGui::GetForegroundDrawList(), theme, fonts, size.scale, record_};
    DrawHelpCard(above, parts.window, HelpOf());
  }
  return record_;
}

}  // namespace foretrain::ui
