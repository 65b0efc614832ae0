"""Routes of the audit log."""

from django.urls import path

from fabric.audit.views import AuditList

app_name = "audit"
urlpatterns = [path("audit/", AuditList.as_view(), name="list")]
