"""Open a page in Qt's Chromium and print, as JSON, the values of expressions, its console, and what it asked for."""

import json
import sys

from PyQt6.QtCore import QTimer, QUrl
from PyQt6.QtWebEngineCore import QWebEnginePage, QWebEngineProfile, QWebEngineUrlRequestInterceptor
from PyQt6.QtWidgets import QApplication

address, *expressions = sys.argv[1:]
found = {"values": [], "console": [], "requests": []}


class Requests(QWebEngineUrlRequestInterceptor):
    def interceptRequest(self, info):
        found["requests"].append(info.requestUrl().toString()[:80])


class Page(QWebEnginePage):
    def javaScriptConsoleMessage(self, level, message, line, source):
        found["console"].append(message)


def step(value=None, number=0):
    """Keep the value of the last expression, and run the next one."""
    if number:
        found["values"].append(value)
    if number == len(expressions):
        application.quit()
    else:
        page.runJavaScript(expressions[number], lambda value: step(value, number + 1))


application = QApplication(sys.argv[:1])
profile, requests = QWebEngineProfile(), Requests()
profile.setUrlRequestInterceptor(requests)
page = Page(profile)
page.loadFinished.connect(lambda loaded: QTimer.singleShot(200, step))
page.load(QUrl(address))
application.exec()
print(json.dumps(found))
