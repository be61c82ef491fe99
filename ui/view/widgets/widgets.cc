#include "ui/view/widgets/widgets.h"

#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>

namespace foretrain::ui {
namespace {

constexpr float kLabelColumn = 150.0F;

ImVec4 Vec(Colour colour) { return ImGui::ColorConvertU32ToFloat4(colour); }

// Adds a text at `at` in the current panel to the record, in the current colour of texts. Null if
// there is no text.
TextRecord* NoteText(const ScreenFrame& frame, ImFont* font, std::string_view text, ImVec2 at,
                     ImVec2 size = {}) {
  if (text.empty()) return nullptr;
  if (size.x <= 0.0F) size = {frame.canvas.WidthOf(font, text), font->FontSize};
  const ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 low = list.GetClipRectMin(), high = list.GetClipRectMax();
  frame.canvas.record.texts.push_back({std::string(text),
                                       {at.x, at.y, at.x + size.x, at.y + size.y},
                                       {low.x, low.y, high.x, high.y},
                                       /*scrolls=*/true,
                                       /*scrolls_sideways=*/ImGui::GetScrollMaxX() > 0.0F,
                                       ImGui::GetColorU32(ImGuiCol_Text)});
  return &frame.canvas.record.texts.back();
}

// The same within the previous widget, which shows the text behind a margin of `pad`.
TextRecord* NoteTextInWidget(const ScreenFrame& frame, std::string_view text, float pad,
                             float right) {
  const std::string_view shown = text.substr(0, text.find("##"));
  const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
  const float y = (low.y + high.y - ImGui::GetFontSize()) / 2;
  TextRecord* const noted = NoteText(frame, ImGui::GetFont(), shown, {low.x + pad, y});
  if (noted != nullptr) noted->clip.x1 = std::min(noted->clip.x1, high.x - right);
  return noted;
}

// The value of the previous widget, which shows it in its middle.
void NoteValue(const ScreenFrame& frame, ImFont* font, std::string_view text) {
  const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
  const float width = frame.canvas.WidthOf(font, text);
  const float x = std::max(low.x, (low.x + high.x - width) / 2);
  NoteText(frame, font, text, {x, (low.y + high.y - font->FontSize) / 2});
}

void Words(const ScreenFrame& frame, ImFont* font, Colour colour, std::string_view text) {
  frame.canvas.record.labels.emplace_back(text);
  ImGui::PushFont(font);
  ImGui::PushStyleColor(ImGuiCol_Text, colour);
  ImGui::TextUnformatted(text.data(), text.data() + text.size());
  NoteText(frame, font, text, ImGui::GetItemRectMin(), ImGui::GetItemRectSize());
  ImGui::PopStyleColor();
  ImGui::PopFont();
}

// Draws the name of a control and puts the control to its right, as wide as there is room.
std::string Named(const ScreenFrame& frame, const char* label) {
  const std::string_view shown =
      std::string_view(label).substr(0, std::string_view(label).find("##"));
  if (!shown.empty()) {
    ImGui::AlignTextToFramePadding();
    Words(frame, frame.canvas.fonts.text, frame.canvas.theme.muted, shown);
    const float column = std::min(frame.canvas.Px(kLabelColumn), 0.5F * ImGui::GetWindowWidth());
    ImGui::SameLine(column);
  }
  ImGui::SetNextItemWidth(-1.0F);
  return std::string("##") + label;
}

}  // namespace

// Derived colours are mixed from the theme's few, so that both themes stay consistent.
void ApplyStyle(const Theme& theme, float scale) {
  ImGuiStyle style;
  style.WindowPadding = {12.0F, 10.0F};
  style.FramePadding = {8.0F, 4.0F};
  style.ItemSpacing = {8.0F, 6.0F};
  style.CellPadding = {6.0F, 3.0F};
  style.WindowBorderSize = 0.0F;
  style.ScrollbarSize = 10.0F;
  style.GrabMinSize = 10.0F;
  style.FrameRounding = 4.0F;
  style.GrabRounding = 3.0F;
  style.PopupRounding = 4.0F;
  style.ScrollbarRounding = 5.0F;
  style.ScaleAllSizes(scale);
  const auto set = [&style](ImGuiCol which, Colour colour) { style.Colors[which] = Vec(colour); };
  const Colour field = Mixed(theme.panel, theme.text, 0.07F);
  const Colour over = Mixed(theme.panel, theme.text, 0.14F);
  const Colour held = Mixed(theme.panel, theme.text, 0.22F);
  set(ImGuiCol_Text, theme.text);
  set(ImGuiCol_TextDisabled, theme.muted);  // hints in fields
  set(ImGuiCol_WindowBg, 0);
  set(ImGuiCol_ChildBg, 0);
  set(ImGuiCol_PopupBg, theme.panel);
  set(ImGuiCol_Border, theme.line);
  for (const ImGuiCol which : {ImGuiCol_FrameBg, ImGuiCol_Button, ImGuiCol_Header})
    set(which, field);
  for (const ImGuiCol which :
       {ImGuiCol_FrameBgHovered, ImGuiCol_ButtonHovered, ImGuiCol_HeaderHovered}) {
    set(which, over);
  }
  for (const ImGuiCol which :
       {ImGuiCol_FrameBgActive, ImGuiCol_ButtonActive, ImGuiCol_HeaderActive}) {
    set(which, held);
  }
  // The value is written over the grab and must be readable there.
  set(ImGuiCol_SliderGrab, Mixed(theme.panel, theme.text, 0.30F));
  set(ImGuiCol_SliderGrabActive, Mixed(theme.panel, theme.text, 0.42F));
  set(ImGuiCol_CheckMark, theme.text);
  set(ImGuiCol_ScrollbarBg, 0);
  set(ImGuiCol_ScrollbarGrab, theme.line);
  set(ImGuiCol_ScrollbarGrabHovered, theme.faint);
  set(ImGuiCol_ScrollbarGrabActive, theme.muted);
  set(ImGuiCol_Separator, theme.line);
  set(ImGuiCol_TableHeaderBg, theme.panel);
  set(ImGuiCol_TableBorderLight, theme.grid);
  set(ImGuiCol_TableBorderStrong, theme.line);
  set(ImGuiCol_TableRowBg, 0);
  set(ImGuiCol_TableRowBgAlt, Faded(theme.text, 0.025F));
  set(ImGuiCol_TextSelectedBg, Faded(theme.text, 0.25F));
  ImGui::GetStyle() = style;
}

// Without decoration, saved settings or keyboard navigation: position and keys are the desktop's
// business.
void BeginPanel(const ScreenFrame& frame, const Box& box, const char* id) {
  ImGui::SetNextWindowPos({box.x0, box.y0});
  ImGui::SetNextWindowSize({std::max(1.0F, box.Width()), std::max(1.0F, box.Height())});
  ImGui::PushFont(frame.canvas.fonts.text);
  ImGui::Begin(id, nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus |
                   ImGuiWindowFlags_NoNavInputs);
}

void EndPanel() {
  ImGui::End();
  ImGui::PopFont();
}

void Label(const ScreenFrame& frame, std::string_view text) {
  Words(frame, frame.canvas.fonts.text, frame.canvas.theme.text, text);
}
void MutedLabel(const ScreenFrame& frame, std::string_view text) {
  Words(frame, frame.canvas.fonts.text, frame.canvas.theme.muted, text);
}
void Title(const ScreenFrame& frame, std::string_view text) {
  Words(frame, frame.canvas.fonts.bold, frame.canvas.theme.text, text);
}
void NumberText(const ScreenFrame& frame, std::string_view text) {
  Words(frame, frame.canvas.fonts.mono, frame.canvas.theme.text, text);
}
void ColouredNumber(const ScreenFrame& frame, Colour colour, std::string_view text) {
  Words(frame, frame.canvas.fonts.mono, colour, text);
}
void SmallText(const ScreenFrame& frame, Colour colour, std::string_view text) {
  ImGui::PushTextWrapPos(0.0F);
  Words(frame, frame.canvas.fonts.small, colour, text);
  ImGui::PopTextWrapPos();
}
void SmallMono(const ScreenFrame& frame, Colour colour, std::string_view text) {
  ImGui::PushTextWrapPos(0.0F);
  Words(frame, frame.canvas.fonts.mono_small, colour, text);
  ImGui::PopTextWrapPos();
}
void Paragraph(const ScreenFrame& frame, std::string_view text) {
  Paragraph(frame, text, frame.canvas.theme.muted);
}
void Paragraph(const ScreenFrame& frame, std::string_view text, Colour colour) {
  ImGui::PushTextWrapPos(0.0F);
  Words(frame, frame.canvas.fonts.text, colour, text);
  ImGui::PopTextWrapPos();
}

// Widgets with a hidden label ("##x") are recorded under their whole label.
void Record(const ScreenFrame& frame, std::string_view label) {
  const ImVec2 low = ImGui::GetItemRectMin();
  const ImVec2 high = ImGui::GetItemRectMax();
  const std::string_view shown = label.substr(0, label.find("##"));
  frame.canvas.record.widgets.push_back(
      {std::string(shown.empty() ? label : shown), {low.x, low.y, high.x, high.y}});
}

bool Button(const ScreenFrame& frame, const char* label, bool enabled) {
  ImGui::BeginDisabled(!enabled);
  const bool used = ImGui::Button(label);
  ImGui::EndDisabled();
  Record(frame, label);
  TextRecord* const noted = NoteTextInWidget(frame, label, ImGui::GetStyle().FramePadding.x, 0.0F);
  if (noted != nullptr) noted->disabled = !enabled;
  frame.canvas.record.labels.push_back(frame.canvas.record.widgets.back().label);
  return used;
}

bool SmallButton(const ScreenFrame& frame, const char* label, std::string_view name) {
  const bool used = ImGui::SmallButton(label);
  Record(frame, name);
  NoteTextInWidget(frame, label, ImGui::GetStyle().FramePadding.x, 0.0F);
  frame.canvas.record.labels.emplace_back(label);
  return used;
}

bool LinkButton(const ScreenFrame& frame, const char* label) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const bool used = ImGui::Selectable(label);
  Record(frame, label);
  NoteText(frame, ImGui::GetFont(),
           std::string_view(label).substr(0, std::string_view(label).find("##")), at);
  frame.canvas.record.labels.emplace_back(label);
  return used;
}

bool SelectableRow(const ScreenFrame& frame, const std::string& text, bool chosen,
                   std::string_view name) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const bool used = ImGui::Selectable(text.c_str(), chosen, ImGuiSelectableFlags_SpanAllColumns);
  Record(frame, name.empty() ? std::string_view(text) : name);
  NoteText(frame, ImGui::GetFont(), text, at);
  frame.canvas.record.labels.push_back(text);
  return used;
}

bool Toggle(const ScreenFrame& frame, const char* label, bool* on) {
  const std::string id = Named(frame, label);
  const bool used = ImGui::Checkbox(id.c_str(), on);
  Record(frame, label);
  return used;
}

// The open list adds its items to the record, so that tests can click them.
bool Combo(const ScreenFrame& frame, const char* label, int* chosen,
           const std::vector<std::string>& items) {
  const std::string id = Named(frame, label);
  const bool known = *chosen >= 0 && *chosen < static_cast<int>(items.size());
  const std::string shown = known ? items[static_cast<std::size_t>(*chosen)] : std::string();
  frame.canvas.record.labels.push_back(shown);
  const bool open = ImGui::BeginCombo(id.c_str(), shown.c_str());
  Record(frame, label);
  // The arrow is as wide as the control is high.
  if (!open) {
    NoteTextInWidget(frame, shown, ImGui::GetStyle().FramePadding.x, ImGui::GetFrameHeight());
  }
  bool used = false;
  if (!open) return used;
  for (std::size_t i = 0; i < items.size(); ++i) {
    ImGui::PushID(static_cast<int>(i));
    const bool now = static_cast<int>(i) == *chosen;
    if (ImGui::Selectable(items[i].c_str(), now)) {
      used = !now;
      *chosen = static_cast<int>(i);
    }
    Record(frame, items[i]);
    if (now) ImGui::SetItemDefaultFocus();
    ImGui::PopID();
  }
  ImGui::EndCombo();
  return used;
}

bool IntSlider(const ScreenFrame& frame, const char* label, int* value, int low, int high) {
  const std::string id = Named(frame, label);
  ImGui::PushFont(frame.canvas.fonts.mono);
  const bool used =
      ImGui::SliderInt(id.c_str(), value, low, high, "%d", ImGuiSliderFlags_AlwaysClamp);
  ImGui::PopFont();
  Record(frame, label);
  NoteValue(frame, frame.canvas.fonts.mono, std::to_string(*value));
  frame.canvas.record.labels.push_back(std::to_string(*value));
  return used;
}

// The text replaces ImGui's number format, so a value can be shown with its own unit.
bool Slider(const ScreenFrame& frame, const char* label, double* value, double low, double high,
            const std::string& text, bool logarithmic) {
  const std::string id = Named(frame, label);
  // ImGui would read a percent sign as a format.
  std::string shown;
  for (const char c : text) shown += c == '%' ? "%%" : std::string(1, c);
  ImGui::PushFont(frame.canvas.fonts.mono);
  const bool used =
      ImGui::SliderScalar(id.c_str(), ImGuiDataType_Double, value, &low, &high, shown.c_str(),
                          ImGuiSliderFlags_AlwaysClamp | ImGuiSliderFlags_NoRoundToFormat |
                              (logarithmic ? ImGuiSliderFlags_Logarithmic : ImGuiSliderFlags_None));
  ImGui::PopFont();
  Record(frame, label);
  NoteValue(frame, frame.canvas.fonts.mono, text);
  frame.canvas.record.labels.push_back(text);
  return used;
}

bool TextField(const ScreenFrame& frame, const char* label, std::string* text, const char* hint,
               float room) {
  const std::string id = Named(frame, label);
  if (room > 0.0F) ImGui::SetNextItemWidth(-room);
  const bool used = ImGui::InputTextWithHint(id.c_str(), hint, text);
  Record(frame, label);
  const bool empty = text->empty();
  ImGui::PushStyleColor(ImGuiCol_Text, empty ? frame.canvas.theme.muted : frame.canvas.theme.text);
  TextRecord* const noted = NoteTextInWidget(frame, empty ? std::string_view(hint) : *text,
                                             ImGui::GetStyle().FramePadding.x, 0.0F);
  ImGui::PopStyleColor();
  // A text that is too long for its field scrolls in it.
  if (noted != nullptr) noted->scrolls_sideways = !empty;
  frame.canvas.record.labels.push_back(*text);
  return used;
}

// Also shown over disabled widgets, which then explain why they are disabled.
void Tooltip(const ScreenFrame& frame, std::string_view text) {
  if (!ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled)) return;
  frame.canvas.record.tooltip.emplace_back(text);
  ImGui::BeginTooltip();
  ImGui::PushTextWrapPos(frame.canvas.Px(420));
  ImGui::TextUnformatted(text.data(), text.data() + text.size());
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

// The header row is written by hand instead of ImGui::TableHeadersRow, so that each title enters
// the record.
bool BeginTable(const ScreenFrame& frame, const char* id, const std::vector<std::string>& columns,
                bool sortable, int sorted_by, float height) {
  const ImGuiTableFlags flags = ImGuiTableFlags_RowBg | ImGuiTableFlags_BordersInnerH |
                                ImGuiTableFlags_ScrollY | ImGuiTableFlags_SizingFixedFit |
                                ImGuiTableFlags_NoSavedSettings |
                                (sortable ? ImGuiTableFlags_Sortable : ImGuiTableFlags_None);
  if (!ImGui::BeginTable(id, static_cast<int>(columns.size()), flags, {0.0F, height})) return false;
  ImGui::TableSetupScrollFreeze(0, 1);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const bool first = static_cast<int>(i) == sorted_by;
    ImGui::TableSetupColumn(columns[i].c_str(), first
                                                    ? ImGuiTableColumnFlags_DefaultSort |
                                                          ImGuiTableColumnFlags_PreferSortDescending
                                                    : ImGuiTableColumnFlags_None);
  }
  ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
  ImGui::PushStyleColor(ImGuiCol_Text, frame.canvas.theme.muted);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    ImGui::TableSetColumnIndex(static_cast<int>(i));
    ImGui::PushID(static_cast<int>(i));
    const ImVec2 at = ImGui::GetCursorScreenPos();
    ImGui::TableHeader(columns[i].c_str());
    ImGui::PopID();
    Record(frame, columns[i]);
    NoteText(frame, ImGui::GetFont(), columns[i], at);
    frame.canvas.record.labels.push_back(columns[i]);
  }
  ImGui::PopStyleColor();
  return true;
}

void EndTable() { ImGui::EndTable(); }

void Cell(const ScreenFrame& frame, std::string_view text) {
  ImGui::TableNextColumn();
  Words(frame, frame.canvas.fonts.text, frame.canvas.theme.text, text);
}

void NumberCell(const ScreenFrame& frame, std::string_view text) {
  NumberCell(frame, text, frame.canvas.theme.text);
}

// Right-aligned by its width in the mono font.
void NumberCell(const ScreenFrame& frame, std::string_view text, Colour colour) {
  ImGui::TableNextColumn();
  const float free =
      ImGui::GetContentRegionAvail().x - frame.canvas.WidthOf(frame.canvas.fonts.mono, text);
  if (free > 0.0F) ImGui::SetCursorPosX(ImGui::GetCursorPosX() + free);
  Words(frame, frame.canvas.fonts.mono, colour, text);
}

}  // namespace foretrain::ui
